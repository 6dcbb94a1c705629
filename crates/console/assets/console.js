// Keeps pages fresh and adds keys. Everything works without it.
"use strict";
{
  const main = document.getElementById("main");
  const said = document.getElementById("said");
  let at = -1;

  const items = () => [...main.querySelectorAll("[data-item]")];

  function choose(next) {
    const all = items();
    if (all.length === 0) return;
    at = Math.max(0, Math.min(all.length - 1, next));
    all.forEach((item, n) => item.classList.toggle("current", n === at));
    const target = all[at].querySelector("a, h2 a") || all[at];
    target.focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  }

  // A key chooses and points; only the button, pressed, answers. Nobody agrees by leaning on the keyboard.
  const keys = {
    j: () => choose(at + 1),
    k: () => choose(at - 1),
    a: () => items()[Math.max(at, 0)]?.querySelector("[data-key=a]")?.focus(),
    d: () => items()[Math.max(at, 0)]?.querySelector("[data-key=d]")?.focus(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // The page is asked for again and its content exchanged, unless somebody is filling it in.
  let due = null;
  async function refresh() {
    due = null;
    // Nor while somebody is about to answer: what is under the pointer must stay what it was when they aimed at it.
    const busy = main.querySelector("input:not([type=hidden]):focus, select:focus, .answer:hover, .answer:focus-within");
    const written = [...main.querySelectorAll("[data-reason]")].some((field) => field.value !== field.defaultValue);
    if (busy || written) {
      said.textContent = "There is something new.";
      due = setTimeout(refresh, 1000);
      return;
    }
    said.textContent = "";
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!fresh) return;
    const focused = document.activeElement?.id;
    main.replaceChildren(...fresh.childNodes);
    for (const name of ["live", "slow"]) {
      if (name in fresh.dataset) main.dataset[name] = fresh.dataset[name];
      else delete main.dataset[name];
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    if (at >= 0) items().forEach((item, n) => item.classList.toggle("current", n === at));
  }

  if (main.dataset.live) {
    let events = null;
    const soon = () => {
      if (main.dataset.live) due ??= setTimeout(refresh, Number(main.dataset.slow || 200));
    };
    const listen = () => {
      events = new EventSource("/api/events");
      for (const name of [...main.dataset.live.split(" "), "missed"]) events.addEventListener(name, soon);
      events.addEventListener("error", () => {
        said.textContent = "The console does not answer; trying again.";
      });
      // What happened before this page began to listen, or while it could not, was not told.
      events.addEventListener("open", () => {
        said.textContent = "";
        soon();
      });
    };
    // A browser has six connections to a site, for all its pages: one that nobody looks at gives its own back.
    document.addEventListener("visibilitychange", () => {
      events?.close();
      if (!document.hidden && main.dataset.live) listen();
    });
    if (!document.hidden) listen();
  }
}
