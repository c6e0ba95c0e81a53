"use strict";
function showStep(panel, step) {
  const input = panel.querySelector("input[data-steps]");
  if (!input) return;
  const steps = input.dataset.steps.split(",").map(Number);
  let nearest = step === Infinity ? steps.length - 1 : 0;
  if (step !== Infinity) steps.forEach((each, n) => { if (Math.abs(each - step) < Math.abs(steps[nearest] - step)) nearest = n; });
  input.value = nearest;
  panel.querySelector("output").textContent = `step ${steps[nearest]}`;
  for (const moment of panel.querySelectorAll("[data-step]")) moment.hidden = Number(moment.dataset.step) !== steps[nearest];
}
document.addEventListener("input", (event) => {
  const input = event.target;
  if (!input.matches("input[data-steps]")) return;
  const step = Number(input.dataset.steps.split(",")[input.value]);
  const together = input.closest(".pair");
  const panels = together ? together.querySelectorAll(".run") : [input.closest(".run")];
  for (const panel of panels) showStep(panel, step);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (!button) return;
  const head = button.parentElement, table = head.closest("table"), column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const rows = [...table.tBodies[0].rows];
  const empty = (text) => text === "";
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : Number(x) - Number(y);
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
});
function choose(select) {
  const place = document.getElementById(select.dataset.place);
  place.replaceChildren(document.getElementById(`run-${select.value}`).content.cloneNode(true));
  const panel = place.querySelector(".run");
  if (panel) showStep(panel, Infinity);
}
for (const select of document.querySelectorAll("select[data-place]")) {
  select.addEventListener("change", () => choose(select));
  choose(select);
}
for (const panel of document.querySelectorAll(".run")) showStep(panel, Infinity);
