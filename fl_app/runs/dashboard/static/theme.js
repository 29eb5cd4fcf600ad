// SPDX-License-Identifier: GPL-3.0-or-later
// Dark or light, and colours that readers with any colour vision can tell apart (Okabe and Ito, 2008).

const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b97f00", "#3795c9", "#5a5a5a", "#7a5195"];
const DARK = ["#56b4e9", "#e69f00", "#2bc49a", "#e39bc4", "#f0e442", "#ff8c4b", "#c0c8d0", "#a996e8"];
export const DASHES = ["solid", "dash", "dot", "dashdot"];
export const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "pentagon"];

export const isDark = () => document.documentElement.dataset.theme === "dark";

/** The colour of the nth curve of a figure. */
export function colour(n) {
  const colours = isDark() ? DARK : LIGHT;
  return colours[n % colours.length];
}

/** Beyond as many curves as there are colours, the dashes tell them apart. */
export const dash = (n) => DASHES[Math.floor(n / LIGHT.length) % DASHES.length];

export function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(`--${name}`).trim();
  return { text: ink("text"), soft: ink("soft"), line: ink("line") };
}

/** Follows the system until the reader chooses; `changed` is called after every change. */
export function startTheme(button, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    changed();
  };
  const chosen = () => localStorage.getItem("theme");
  const follow = () => set(chosen() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  button.addEventListener("click", () => {
    localStorage.setItem("theme", isDark() ? "light" : "dark");
    follow();
  });
  follow();
}
