"use strict";
// Renews what changes every two seconds, while somebody can see it and selects
// nothing of it.
{
  const stale = document.getElementById("stale");
  const busy = () => document.hidden || !getSelection().isCollapsed;
  let timer, answered = Date.now();

  // put takes the parts of the next page that change, and keeps what the reader has
  // done with those of this one.
  const put = (next) => {
    const scrolled = [...document.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    const open = [...document.querySelectorAll("details")].map((e) => e.open);
    const focused = document.activeElement.tagName === "SUMMARY";
    for (const part of ["#when", "main"]) {
      document.querySelector(part).replaceWith(next.querySelector(part));
    }
    document.querySelectorAll(".wide").forEach((e, i) => e.scrollLeft = scrolled[i] || 0);
    document.querySelectorAll("details").forEach((e, i) => e.open = open[i] || false);
    if (focused) document.querySelector("summary")?.focus();
  };

  const renew = async () => {
    clearTimeout(timer);
    if (!busy()) {
      try {
        const response = await fetch(location.href, {signal: AbortSignal.timeout(10000)});
        if (!response.ok) throw new Error("it answers " + response.status);
        const next = new DOMParser().parseFromString(await response.text(), "text/html");
        answered = Date.now();
        stale.hidden = true;
        if (!busy()) put(next);
      } catch (e) {
        const seconds = Math.round((Date.now() - answered) / 1000);
        stale.textContent = `This page is ${seconds} s old: the process does not answer. (${e.message})`;
        stale.hidden = false;
      }
    }
    clearTimeout(timer);
    timer = setTimeout(renew, 2000);
  };
  document.addEventListener("visibilitychange", renew);
  timer = setTimeout(renew, 2000);
}
