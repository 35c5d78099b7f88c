/** Icon.tsx -- the page's icons, all in one style. */

const paths = {
  plus: "M10 4v12M4 10h12",
  menu: "M3 5.5h14M3 10h14M3 14.5h14",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  stopped: "M6.2 6.2h7.6v7.6H6.2z",
  search: "M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M13 13l4 4",
  link: "M8.5 11.5a3 3 0 0 0 4.2 0l3-3a3 3 0 0 0-4.2-4.2l-1 1M11.5 8.5a3 3 0 0 0-4.2 0l-3 3a3 3 0 0 0 4.2 4.2l1-1",
  pin: "M7 3h6l-.7 5 2.7 3H5l2.7-3zM10 11v6",
  archive: "M3 4h14v3.5H3zM4.5 7.5V16h11V7.5M8 10.5h4",
  phone: "M6 2.5h8v15H6zM9 15h2",
  warning: "M10 3.2l7.3 12.9H2.7zM10 8v3.6M10 13.7h.01",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  check: "M4 10.5l4 4 8-9",
  retry: "M15.5 8A6 6 0 1 0 16 11M16 4v4h-4",
  tool: "M12.5 3.5a4 4 0 0 0-4.6 5.4L3.5 13.3a2.2 2.2 0 0 0 3.2 3.2l4.4-4.4a4 4 0 0 0 5.4-4.6l-2.5 2.5-2.5-.9-.9-2.5z",
  think: "M7.5 15h5M8.5 17.5h3M10 2.5a5 5 0 0 0-3 9c.7.6 1 1.2 1 2h4c0-.8.3-1.4 1-2a5 5 0 0 0-3-9z",
  tray: "M3 11l2.5-7h9L17 11v5H3zM3 11h4l1 2h4l1-2h4",
  branch: "M6 3.5v13M6 9h5a3 3 0 0 1 3 3v.5M14 16.5v-1M6 16.5h0",
  down: "M10 4v12M5 11l5 5 5-5",
  chevron: "M7.5 5l5 5-5 5",
  clip: "M13.5 6.5l-5.6 5.6a1.6 1.6 0 0 0 2.3 2.3l5.9-5.9a3.2 3.2 0 0 0-4.6-4.6l-6 6a4.8 4.8 0 0 0 6.8 6.8l5.2-5.2",
  file: "M5.5 2.8h6l3.5 3.5v10.9h-9.5zM11.3 2.8v3.7h3.7",
  clock: "M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15M10 6v4.3l2.8 1.7",
  close: "M5 5l10 10M15 5L5 15",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  trash: "M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  pen: "M4 16l.8-3.5L13.5 4l2.5 2.5L7.5 15.2z",
  inspect: "M3 10h3l2-5 4 10 2-5h3",
  moon: "M15.5 12A6.5 6.5 0 0 1 8 4.5a6.5 6.5 0 1 0 7.5 7.5z",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  screen: "M3 4.5h14v9H3zM7.5 16.5h5M10 13.5v3",
  keys: "M2.5 5.5h15v9h-15zM5.5 8.5h.01M8.5 8.5h.01M11.5 8.5h.01M14.5 8.5h.01M7 11.5h6",
  play: "M6.5 4.5v11l9-5.5z",
  pause: "M7 5v10M13 5v10",
  save: "M10 3v9M6 8.5l4 4 4-4M4 16h12",
  leave: "M8 4H4v12h4M12.5 6.5L16 10l-3.5 3.5M16 10H8",
  open: "M10 13V4M6 7.5l4-4 4 4M4 16h12",
  question: "M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15M8 8a2 2 0 1 1 2.8 1.8c-.5.3-.8.6-.8 1.3M10 13.7h.01",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" data-name={name} viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
