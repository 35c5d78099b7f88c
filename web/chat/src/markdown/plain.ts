/** plain.ts -- HTML inside Markdown is plain text: it is shown, and has no effect. */

interface Node {
  type: string;
  value?: string;
  children?: Node[];
}

export function htmlAsText() {
  return (tree: Node) => walk(tree, false);
}

function walk(node: Node, inline: boolean) {
  node.children?.forEach((child, at) => {
    if (child.type !== "html") return walk(child, inline || child.type === "paragraph");
    const text = { type: "text", value: child.value };
    const isBlock = node.type === "root" || node.type === "listItem" || node.type === "blockquote";
    node.children![at] = isBlock ? { type: "paragraph", children: [text] } : text;
  });
}
