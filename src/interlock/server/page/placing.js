// Places a graph from its levels and columns: boxes, lanes beside them, and the graphs inside boxes that are open.
// Edges to the next level are straight; longer ones take a lane on the left, those that lead back one on the right,
// one lane for each target.

const BOX = 44, GAP = 40, BESIDE = 20, LANE = 16, INNER = 14, INNER_NAME = 24;

export function place(graph, graphs, opened, within = "") {
  const rows = boxes(graph, graphs, opened, within);
  const body = Math.max(...rows.map((row) => row.reduce((sum, box) => sum + box.width + BESIDE, -BESIDE)));
  const lanes = { left: [], right: [] };
  const level = new Map(graph.layout.nodes.map((node) => [node.name, node.level]));
  const ends = graph.layout.edges.some((edge) => edge.target === null);
  level.set(null, graph.layout.levels);
  const last = rows.length - 1;
  const columnOf = new Map(rows.flatMap((row) => row.map((box, n) => [box.name, { first: n === 0, last: n === row.length - 1, alone: row.length === 1 }])));
  const lone = { first: true, last: true, alone: true };
  const edges = graph.layout.edges.map((edge) => {
    const isNext = level.get(edge.target) - level.get(edge.source) === 1;
    const target = columnOf.get(edge.target) ?? lone;
    const side = isNext ? null : edge.is_back || (!target.first && target.last) ? "right" : "left";
    if (side && !lanes[side].includes(edge.target)) lanes[side].push(edge.target);
    return { ...edge, side };
  });
  const left = lanes.left.length * LANE + (lanes.left.length ? 10 : 0);
  const right = lanes.right.length * LANE + (lanes.right.length ? 10 : 0);
  const isRoot = within === "";
  let y = isRoot ? 34 : 0;
  const at = new Map();
  for (const row of rows) {
    let x = left + (body - row.reduce((sum, box) => sum + box.width + BESIDE, -BESIDE)) / 2;
    const height = Math.max(...row.map((box) => box.height));
    for (const box of row) {
      Object.assign(box, { x, y, bottom: y + height });
      for (const plan of box.plans) plan.x += x, plan.y += y;
      at.set(box.name, box);
      x += box.width + BESIDE;
    }
    y += height + GAP;
  }
  const middle = left + body / 2;
  const points = isRoot ? [{ kind: "start", x: at.get(graph.entry).x + at.get(graph.entry).width / 2, y: 5 }] : [];
  if (ends) {
    at.set(null, { name: null, x: middle - 5, y: y - 8, width: 10, height: 10, bottom: y + 2, plans: [] });
    points.push({ kind: "end", x: middle, y: y - 3 });
  }
  const context = { at, lanes, columnOf: (name) => columnOf.get(name) ?? lone, width: left + body + right, body: { from: left, to: left + body }, isMany: rows.some((row) => row.length > 1) };
  const found = edges.map((edge) => route(edge, context));
  if (isRoot) {
    const entry = points[0];
    found.push({ source: "", target: graph.entry, outcomes: ["the start"], path: `M${entry.x} 10V${at.get(graph.entry).y}`, head: arrow(entry.x, at.get(graph.entry).y, 0, 1), count: { x: 0, y: -50 } });
  }
  return { name: graph.name, nodes: rows.flat(), edges: found, points, width: context.width, height: y - GAP + (ends ? GAP + 4 : 0) };
}

function boxes(graph, graphs, opened, within) {
  const rows = Array.from({ length: graph.layout.levels }, () => []);
  const contracts = new Map(graph.nodes.map((node) => [node.name, node]));
  for (const { name, level } of [...graph.layout.nodes].sort((a, b) => a.column - b.column)) {
    const contract = contracts.get(name);
    const path = within ? `${within}/${name}` : name;
    const inner = [...new Set(Object.values(contract.graphs))].filter((one) => graphs.has(one));
    const box = { name, inner: inner.length > 0, plans: [], width: Math.max(132, name.length * 7.3 + (inner.length ? 88 : 64)), height: BOX };
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

function route(edge, { at, lanes, columnOf, width, body, isMany }) {
  const source = at.get(edge.source), target = at.get(edge.target);
  const from = { x: source.x + source.width / 2, y: source.y + source.height }, to = { x: target.x + target.width / 2, y: target.y };
  if (!edge.side) {
    const spread = isMany && Math.abs(from.x - to.x) > 30;
    const middle = source.bottom + GAP / 2;
    const points = spread ? [[from.x, from.y], [from.x, middle], [to.x, middle], [to.x, to.y]] : [[to.x, from.y], [to.x, to.y]];
    const label = spread ? { x: to.x + 8, y: to.y - 8 } : { x: to.x + 8, y: from.y + 24 };
    return { ...edge, path: rounded(points), head: arrow(to.x, to.y, 0, 1), label, count: { x: to.x, y: spread ? middle + 4 : (from.y + to.y) / 2 - 3 } };
  }
  const isLeft = edge.side === "left";
  const number = lanes[edge.side].indexOf(edge.target);
  const lane = isLeft ? body.from - 12 - number * LANE : body.to + 12 + number * LANE;
  const points = [];
  const outer = (name) => (isLeft ? columnOf(name).first : columnOf(name).last);
  const edgeOf = (box) => (isLeft ? box.x : box.x + box.width);
  if (outer(edge.source)) points.push([edgeOf(source), source.y + 22 + Math.min(number, 3) * 4 + (edge.is_back ? -8 : 4)]);
  else {
    const gap = source.bottom + 9 + number * 3;
    points.push([from.x + (isLeft ? -16 : 16), from.y], [from.x + (isLeft ? -16 : 16), gap]);
  }
  points.push([lane, points.at(-1)[1]]);
  const head = { x: 0, y: 0, dx: 0, dy: 1 };
  if (edge.target === null) Object.assign(head, { x: isLeft ? target.x : target.x + target.width, y: target.y + 5, dx: isLeft ? 1 : -1, dy: 0 });
  else if (outer(edge.target)) Object.assign(head, { x: edgeOf(target), y: target.y + 12, dx: isLeft ? 1 : -1, dy: 0 });
  else Object.assign(head, { x: to.x + (isLeft ? -20 : 20), y: to.y });
  if (head.dy) points.push([lane, head.y - 12], [head.x, head.y - 12], [head.x, head.y]);
  else points.push([lane, head.y], [head.x, head.y]);
  const [x, y] = points[points.length - (head.dy ? 4 : 3)];
  return { ...edge, path: rounded(points), head: arrow(head.x, head.y, head.dx, head.dy), label: null, count: { x: lane, y: (y + points.at(-2)[1]) / 2 } };
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
