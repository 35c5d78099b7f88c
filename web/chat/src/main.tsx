/** main.tsx -- starts the chat page: one's own, one that somebody shared, or one that another device hands over. */

import "./trust";
import { broughtBy } from "@holdfast/client/sharing";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { keepFocus } from "./focus";
import { Arrival } from "./parts/Arrival";
import { Shared } from "./parts/Shared";
import { link } from "./rights";
import "./styles/index.css";

const { handover: code } = broughtBy(location.href);

keepFocus();
createRoot(document.getElementById("root")!).render(link ? <Shared link={link} /> : code ? <Arrival code={code} /> : <App />);
