/** main.tsx -- starts the chat page. */

import "./trust";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import "./styles/index.css";

createRoot(document.getElementById("root")!).render(<App />);
