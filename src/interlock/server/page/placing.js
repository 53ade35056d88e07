// Places a graph from its levels and columns: boxes, lanes beside them, and the graphs inside boxes that are open.
// Edges to the next level are straight; longer ones take a lane on the left, those that lead back one on the right,
// one lane for each target. The outcomes of an edge stand where it begins; the lanes leave room for them.

const BOX = 44, GAP = 40, BESIDE = 14, LANE = 16, INNER = 14, INNER_NAME = 24;
const FIRST_EXIT = 16, EXIT = 14, ENTRY = 12, LETTER = 6.3, BELOW = 17;

const widthOf = (row) => row.reduce((sum, box) => sum + box.width + BESIDE, -BESIDE);
const labelOf = (edge) => edge.outcomes.join(", ");

export function place(graph, graphs, opened, within = "") {
  const rows = boxes(graph, graphs, opened, within);
  const body = Math.max(...rows.map(widthOf));
  const ends = graph.layout.edges.some((edge) => edge.target === null);
  const columnOf = new Map(rows.flatMap((row) => row.map((box, n) => [box.name, { row, first: n === 0, last: n === row.length - 1 }])));
  const { edges, lanes } = sides(graph, columnOf);
  const exits = exitsOf(edges, lanes, columnOf);
  for (const [name, { row }] of columnOf) growFor(row.find((box) => box.name === name), exits);
  const room = (side) => Math.max(12, ...edges.filter((edge) => edge.side === side && isOuter(edge.source, side, columnOf)).map((edge) => labelOf(edge).length * LETTER + 12 - (body - widthOf(columnOf.get(edge.source).row)) / 2));
  const rooms = { left: room("left"), right: room("right") };
  const [left, right] = ["left", "right"].map((side) => (lanes[side].length ? (lanes[side].length - 1) * LANE + rooms[side] + 14 : 0));
  const isRoot = within === "";
  let y = isRoot ? 34 : 0;
  const at = new Map();
  for (const row of rows) {
    let x = left + (body - widthOf(row)) / 2;
    const height = Math.max(...row.map((box) => box.height));
    // Edges that go from the bottom of a box to a lane have their outcomes below the box.
    const gap = GAP + (edges.some((edge) => edge.side && columnOf.get(edge.source).row === row && !isOuter(edge.source, edge.side, columnOf)) ? BELOW : 0);
    for (const box of row) {
      Object.assign(box, { x, y, bottom: y + height, next: y + height + gap });
      for (const plan of box.plans) plan.x += x, plan.y += y;
      at.set(box.name, box);
      x += box.width + BESIDE;
    }
    y += height + gap;
  }
  const middle = left + body / 2;
  const points = isRoot ? [{ kind: "start", x: at.get(graph.entry).x + at.get(graph.entry).width / 2, y: 5 }] : [];
  if (ends) {
    at.set(null, { name: null, x: middle - 5, y: y - 8, width: 10, height: 10, bottom: y + 2, plans: [] });
    points.push({ kind: "end", x: middle, y: y - 3 });
  }
  const context = { at, lanes, exits, rooms, columnOf, width: left + body + right, body: { from: left, to: left + body }, isMany: rows.some((row) => row.length > 1) };
  const found = edges.map((edge) => route(edge, context));
  if (isRoot) {
    const entry = points[0];
    found.push({ source: "", target: graph.entry, outcomes: ["the start"], path: `M${entry.x} 10V${at.get(graph.entry).y}`, head: arrow(entry.x, at.get(graph.entry).y, 0, 1), count: { x: 0, y: -50 } });
  }
  return { name: graph.name, nodes: rows.flat(), edges: found, points, width: context.width, height: y - GAP + (ends ? GAP + 4 : 0) };
}

const isOuter = (name, side, columnOf) => columnOf.get(name)?.[side === "left" ? "first" : "last"] ?? true;

/** Return the edges with the side of their lane, or null for straight ones, and the targets of the lanes from the inside out. */
function sides(graph, columnOf) {
  const lanes = { left: [], right: [] };
  const level = new Map(graph.layout.nodes.map((node) => [node.name, node.level]));
  level.set(null, graph.layout.levels);
  const edges = graph.layout.edges.map((edge) => {
    const isNext = level.get(edge.target) - level.get(edge.source) === 1;
    const target = columnOf.get(edge.target);
    const side = isNext ? null : edge.is_back || (target && !target.first && target.last) ? "right" : "left";
    if (side && !lanes[side].includes(edge.target)) lanes[side].push(edge.target);
    return { ...edge, side };
  });
  return { edges, lanes };
}

/** Return how far below the top of its box each edge to a lane begins, so that their outcomes do not overlap and no two of them cross. */
function exitsOf(edges, lanes, columnOf) {
  const exits = new Map();
  for (const side of ["left", "right"]) {
    for (const name of columnOf.keys()) {
      const isEntered = lanes[side].includes(name);
      const number = (edge) => lanes[side].indexOf(edge.target) * (edge.is_back ? 1 : -1);
      const own = edges.filter((edge) => edge.side === side && edge.source === name && isOuter(name, side, columnOf)).sort((a, b) => number(a) - number(b));
      own.forEach((edge, n) => exits.set(edge, FIRST_EXIT + (n + (isEntered ? 1 : 0)) * EXIT));
    }
  }
  return exits;
}

/** Make a box high enough for the edges that begin beside it. */
function growFor(box, exits) {
  const lowest = Math.max(0, ...[...exits].filter(([edge]) => edge.source === box.name).map(([, exit]) => exit));
  box.height = Math.max(box.height, lowest + 2);
}

function boxes(graph, graphs, opened, within) {
  const rows = Array.from({ length: graph.layout.levels }, () => []);
  const contracts = new Map(graph.nodes.map((node) => [node.name, node]));
  for (const { name, level } of [...graph.layout.nodes].sort((a, b) => a.column - b.column)) {
    const contract = contracts.get(name);
    const path = within ? `${within}/${name}` : name;
    const inner = [...new Set(Object.values(contract.graphs))].filter((one) => graphs.has(one));
    const box = { name, inner: inner.length > 0, plans: [], width: Math.max(132, name.length * 7.3 + (inner.length ? 88 : 60)), height: BOX };
    if (inner.length && opened.has(path)) {
      for (const one of inner) {
        const plan = place(graphs.get(one), graphs, opened, path);
        plan.x = INNER;
        plan.y = box.height + INNER_NAME;
        box.height = plan.y + plan.height + INNER;
        box.width = Math.max(box.width, plan.width + 2 * INNER, one.length * 6.7 + 2 * INNER);
        box.plans.push(plan);
      }
      for (const plan of box.plans) plan.x = (box.width - plan.width) / 2;
    }
    rows[level].push(box);
  }
  // Boxes of one width make a calm column; one that is open is as wide as it needs to be.
  const closed = rows.flat().filter((box) => !box.plans.length);
  const width = Math.max(...closed.map((box) => box.width), 0);
  for (const box of closed) box.width = width;
  return rows.filter((row) => row.length);
}

function route(edge, context) {
  const source = context.at.get(edge.source), target = context.at.get(edge.target);
  const from = { x: source.x + source.width / 2, y: source.y + source.height }, to = { x: target.x + target.width / 2, y: target.y };
  return edge.side ? viaLane(edge, source, target, from, to, context) : straight(edge, source, from, to, context.isMany);
}

function straight(edge, source, from, to, isMany) {
  const spread = isMany && Math.abs(from.x - to.x) > 30;
  const middle = source.next - GAP / 2;
  const points = spread ? [[from.x, from.y], [from.x, middle], [to.x, middle], [to.x, to.y]] : [[to.x, from.y], [to.x, to.y]];
  const label = spread ? { x: to.x + 8, y: to.y - 8 } : { x: to.x + 8, y: source.next - GAP + 24 };
  return { ...edge, path: rounded(points), head: arrow(to.x, to.y, 0, 1), label, count: { x: to.x, y: spread ? middle + 4 : (from.y + to.y) / 2 - 3 } };
}

function viaLane(edge, source, target, from, to, { lanes, exits, rooms, columnOf, body }) {
  const isLeft = edge.side === "left", out = isLeft ? -1 : 1;
  const number = lanes[edge.side].indexOf(edge.target);
  const lane = (isLeft ? body.from : body.to) + out * (rooms[edge.side] + number * LANE);
  const edgeOf = (box) => (isLeft ? box.x : box.x + box.width);
  const points = [];
  let label;
  if (exits.has(edge)) {
    points.push([edgeOf(source), source.y + exits.get(edge)]);
    label = { x: edgeOf(source) + out * 6, y: points[0][1] - 4 };
  } else {
    const x = from.x + out * 16, gap = source.bottom + BELOW - 1 + number * 3;
    points.push([x, from.y], [x, gap]);
    label = { x: x + out * 6, y: source.bottom + BELOW - 5 };
  }
  points.push([lane, points.at(-1)[1]]);
  const head = { x: 0, y: 0, dx: 0, dy: 1 };
  if (edge.target === null) Object.assign(head, { x: isLeft ? target.x : target.x + target.width, y: target.y + 5, dx: -out, dy: 0 });
  else if (isOuter(edge.target, edge.side, columnOf)) Object.assign(head, { x: edgeOf(target), y: target.y + ENTRY, dx: -out, dy: 0 });
  else Object.assign(head, { x: to.x + out * 20, y: to.y });
  if (head.dy) points.push([lane, head.y - 12], [head.x, head.y - 12], [head.x, head.y]);
  else points.push([lane, head.y], [head.x, head.y]);
  const [, y] = points[points.length - (head.dy ? 4 : 3)];
  return { ...edge, path: rounded(points), head: arrow(head.x, head.y, head.dx, head.dy), label: { ...label, anchor: isLeft ? "end" : "start" }, count: { x: lane, y: (y + points.at(-2)[1]) / 2 } };
}

/** Return a path through points, with rounded corners. */
function rounded(points) {
  const parts = [`M${points[0][0]} ${points[0][1]}`];
  for (let n = 1; n < points.length - 1; n++) {
    const [[ax, ay], [bx, by], [cx, cy]] = [points[n - 1], points[n], points[n + 1]];
    const radius = Math.min(8, Math.hypot(bx - ax, by - ay) / 2, Math.hypot(cx - bx, cy - by) / 2);
    const near = (x, y) => {
      const length = Math.hypot(x - bx, y - by) || 1;
      return `${bx + ((x - bx) / length) * radius} ${by + ((y - by) / length) * radius}`;
    };
    parts.push(`L${near(ax, ay)}Q${bx} ${by} ${near(cx, cy)}`);
  }
  parts.push(`L${points.at(-1)[0]} ${points.at(-1)[1]}`);
  return parts.join("");
}

const arrow = (x, y, dx, dy) => `M${x} ${y}L${x - dx * 7 - dy * 4} ${y - dy * 7 - dx * 4}L${x - dx * 7 + dy * 4} ${y - dy * 7 + dx * 4}Z`;
