// Addresses to pages. An address holds everything that is shown, so that a link or a reload shows it again.

import { clear, errorBox, h } from "./dom.js";
import { address } from "./router.js";
import { savePage } from "./save.js";
import { showRuns } from "./pages/runs.js";
import { showRun } from "./pages/run.js";
import { showCompare } from "./pages/compare.js";
import { showData } from "./pages/data.js";
import { showTry } from "./pages/try.js";
import { showInside } from "./pages/inside.js";
import { showDoctor } from "./pages/doctor.js";
import { showLab } from "./pages/lab.js";

const PAGES = {
  "/": { title: "Runs", show: showRuns },
  "/run": { title: "Run", show: showRun, hidden: true },
  "/compare": { title: "Compare", show: showCompare },
  "/data": { title: "Data", show: showData },
  "/try": { title: "Try", show: showTry },
  "/inside": { title: "Inside", show: showInside },
  "/doctor": { title: "Doctor", show: showDoctor },
  "/lab": { title: "Lab", show: showLab },
};

const main = document.querySelector("main");
let leave = () => {};
let shown = false;

async function show() {
  leave();
  leave = () => {};
  const page = PAGES[location.pathname] || PAGES["/"];
  const query = new URLSearchParams(location.search);
  document.title = `${page.title} · Seqloom Studio`;
  drawNavigation();
  clear(main, h("div", { class: "message" }, "Loading …"));
  try {
    leave = (await page.show(main, query)) || (() => {});
  } catch (error) {
    clear(main, errorBox(error));
  }
  if (shown) main.focus({ preventScroll: true });  // on the first page, the skip link comes first
  shown = true;
}

const ASKING = ["/try", "/inside"]; // pages that show one input

// Where the menu leads: to the same run, and with the input between the pages that show one.
function menuAddress(path) {
  const query = new URLSearchParams(location.search), here = location.pathname;
  const kept = !["/data", "/try", "/inside", "/doctor"].includes(path) ? [] : ASKING.includes(path) && ASKING.includes(here) && path !== here ? ["run", "text", "example", "given", "search"] : ["run"];
  return address(path, Object.fromEntries(kept.map((name) => [name, query.get(name)])));
}

function drawNavigation() {
  const links = Object.entries(PAGES).filter(([, page]) => !page.hidden).map(([path, page]) => {
    const current = path === location.pathname || (path === "/" && location.pathname === "/run");
    return h("a", { href: menuAddress(path), "aria-current": current ? "page" : null }, page.title);
  });
  clear(document.querySelector("nav"), links);
  links.find((link) => link.hasAttribute("aria-current"))?.scrollIntoView({ block: "nearest", inline: "center" });
}

window.addEventListener("remembered", () => {
  for (const link of document.querySelectorAll("nav a")) link.setAttribute("href", menuAddress(link.pathname));
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.hasAttribute("download")) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  show();
});
window.addEventListener("popstate", show);

const save = document.querySelector("#save");
save.addEventListener("click", async () => {
  await savePage(main, document.title.replace(" · Seqloom Studio", ""));
  const name = save.textContent;
  save.textContent = "Saved";
  save.disabled = true;
  setTimeout(() => { save.textContent = name; save.disabled = false; }, 1500);
});

const theme = document.querySelector("#theme");
function applyTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = name === "dark" ? "☀" : "☾";
  theme.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}
applyTheme(localStorage.getItem("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
theme.addEventListener("click", () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", name);
  applyTheme(name);
  show();  // pictures are drawn in the colours of the theme
});

show();
