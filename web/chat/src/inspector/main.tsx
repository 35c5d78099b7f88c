/** main.tsx -- starts the stream inspector. */

import "../trust";
import { createRoot } from "react-dom/client";
import { keepFocus } from "../focus";
import "../styles/index.css";
import "../styles/inspector.css";
import { Inspector } from "./Inspector";

keepFocus();
createRoot(document.getElementById("root")!).render(<Inspector />);
