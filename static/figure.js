// Figures: pointing at a path shows its recorded verdict at once and, after a
// short rest, the verdict of a live run.
//
// The server writes both kinds as HTML. A recorded verdict lies in the figure
// from the start. A live one comes as a fragment whose elements (data-part)
// take the place of the figure's own.

const REST = 120; // ms that a pointer rests on a path before it runs

// Parts that stay while a recorded verdict is shown: they say whose they are.
const staying = new Set(['ran', 'timed', 'explored', 'map', 'timeline', 'scheduler']);
// Parts that one schedule brings to a figure that shows all of them. What the
// scheduler shows is what the reader chose, not what a pointer passes over.
const ownParts = new Set(['ran', 'timeline', 'scheduler', 'key', 'wire']);

// Runs in real time, and all schedules of a path, have modules and sheets of
// their own. The page names them; they are fetched once a figure that needs them
// comes near the screen or is used.
const module = (name) => import(document.querySelector(`link[data-module="${name}"]`).href);
const sheets = new Map(); // by name: a promise of the sheet
function sheet(name) {
  const named = document.querySelector(`link[data-sheet="${name}"]`);
  if (named) {
    sheets.set(name, new Promise((done) => {
      named.replaceWith(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: named.href, onload: done, onerror: done }));
    }));
  }
  return sheets.get(name); // nothing where the page came with it
}
const kinds = { explore: '.explorer', timed: '.timed' };
const NEAR = '75% 0px'; // of the screen's height
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    equip(target);
  }
}, { rootMargin: NEAR });

// equip fetches what a figure needs, and gives a promise of its sheets.
function equip(root) {
  const needs = Object.keys(kinds).filter((name) => root.querySelector(kinds[name]));
  for (const name of needs) module(name).catch(() => {}); // it is asked for again at each use
  return Promise.all(needs.map(sheet));
}

// A link to a place in the page, and paper, may show any figure at once.
const equipAll = () => { for (const name of Object.keys(kinds)) sheet(name); };
document.addEventListener('click', (e) => e.target.closest('a[href^="#"]') && equipAll(), true);
addEventListener('beforeprint', equipAll);

const say = document.getElementById('announce');
// Why a path could not run, where the server's answer holds no words for it.
const calm = {
  429: 'The sandbox is busy.',
  503: 'The sandbox is restarting.',
  504: 'The run took too long.',
};
const unknown = 'This path could not run just now.';
const away = 'The site does not answer.';

function announce(text) {
  // Emptied first: the same text twice would be said once.
  say.textContent = '';
  requestAnimationFrame(() => { say.textContent = text; });
}

// Who runs figures in this tab: an id from the site, or "new" to be given one.
// Without it the tab shares the turn of everybody at its address.
let visitor = 'new';
try { visitor = sessionStorage.getItem('lockstep.visitor') ?? visitor; } catch { /* Storage is closed to this page. */ }

function keep(id) {
  if (!id) return;
  visitor = id;
  try { sessionStorage.setItem('lockstep.visitor', id); } catch { /* It lasts as long as this page. */ }
}

class Figure {
  constructor(root) {
    this.root = root;
    this.links = [...root.querySelectorAll('a.path')];
    this.idle = root.querySelector('template[data-idle]')?.content ?? this.copyParts();
    this.bases = new Map(); // by path: the view of all its schedules, for those that run alone
    this.placed = new Map(); // by name: which part of which view stands in the figure
    this.seq = 0; // of the newest run; an answer to an older one is dropped
    this.flight = null; // the run under way
    this.at = null; // the path that the pointer or the focus is on
    this.last = this.pinned = null; // views to go back to: the last whole one, the chosen one
    this.view = this.pinned = this.arrived();

    for (const link of this.links) link.tabIndex = -1;
    (this.link(this.pinned?.path) ?? this.links[0]).tabIndex = 0;

    if (this.view || root.querySelector('.orders-map')) equip(root);
    near.observe(root);

    root.querySelector('.ran').addEventListener('toggle', () => { module('sequence'); sheet('sequence'); }, { once: true });

    const list = root.querySelector('.paths');
    list.addEventListener('pointerover', (e) => this.over(e));
    list.addEventListener('pointerleave', (e) => e.pointerType === 'touch' || this.leave());
    list.addEventListener('focusin', (e) => this.focus(e));
    list.addEventListener('focusout', (e) => list.contains(e.relatedTarget) || this.leave());
    list.addEventListener('keydown', (e) => this.key(e));
    root.addEventListener('click', (e) => this.click(e));
    root.addEventListener('explore', (e) => this.explore(e.detail));
    // A page that is kept for the way back would keep its requests too.
    addEventListener('pagehide', () => this.stop());
    document.addEventListener('keydown', (e) => {
      if (e.key === 'Escape' && (this.at || this.flight || root.contains(document.activeElement))) this.clear();
    });
  }

  // ---- What a reader does

  over(e) {
    if (e.pointerType === 'touch') return; // a tap is a click, and comes as one
    const path = e.target.closest('a.path')?.dataset.path;
    if (!path || path === this.at || this.watching()) return;
    this.point(path);
    if (!this.timed(path)) this.timer = setTimeout(() => this.run({ path }), REST);
  }

  focus(e) {
    const link = e.target.closest('a.path');
    if (!link) return;
    for (const a of this.links) a.tabIndex = a === link ? 0 : -1;
    // Focus that comes with a click or a tap has nothing of its own to show.
    if (this.watching()) return;
    if (link.matches(':focus-visible') && link.dataset.path !== this.at) this.point(link.dataset.path);
  }

  leave() {
    this.at = null;
    if (this.flight?.pin) return; // it was asked for, not passed over
    this.stop();
    this.restore();
  }

  click(e) {
    const link = e.target.closest('a[data-path]');
    if (!link || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    const { path, schedule } = link.dataset;
    if (link.pathname === location.pathname) history.replaceState(null, '', link.href);
    this.at = path;
    if (this.flight?.path === path && this.flight.schedule === schedule) this.flight.pin = true;
    else this.run({ path, schedule, pin: true, tap: e.pointerType === 'touch' });
  }

  key(e) {
    const link = e.target.closest('a.path');
    if (!link || e.metaKey || e.ctrlKey || e.altKey) return;
    const here = this.links.indexOf(link);
    const ltr = getComputedStyle(this.root).direction === 'ltr';
    let to;
    switch (e.key) {
      case 'ArrowDown': to = here + 1; break;
      case 'ArrowUp': to = here - 1; break;
      case 'ArrowRight': to = here + (ltr ? 1 : -1); break;
      case 'ArrowLeft': to = here - (ltr ? 1 : -1); break;
      case 'Home': to = 0; break;
      case 'End': to = this.links.length - 1; break;
      case ' ': link.click(); break;
      default: return;
    }
    e.preventDefault();
    this.links[to]?.focus();
  }

  // explore runs one schedule, as explore.js asks for it; without one, the
  // pointer or the focus has left the map.
  explore(wish) {
    if (!wish) {
      this.leave();
      return;
    }
    const at = `${wish.path}?${wish.schedule}`;
    if (at === this.at) return;
    this.stop();
    this.at = at;
    if (this.view?.path === wish.path && this.view.schedule === wish.schedule) return;
    this.timer = setTimeout(() => this.run(wish), REST);
  }

  // ---- What the figure does

  // point lights a path and shows its recorded verdict, unless the live one is
  // there already.
  point(path) {
    this.stop();
    this.dress();
    this.at = path;
    if (this.view?.path !== path) this.show({ path });
  }

  // dress fetches what the figure and its runs are drawn with: a single one may
  // be drawn as a timeline.
  dress() { return Promise.all([equip(this.root), sheet('explore')]); }

  // stop gives up what is waiting or under way.
  stop() {
    clearTimeout(this.timer);
    this.flight?.abort.abort();
    this.flight = null;
    this.seq++;
    this.busy(false);
  }

  // restore goes back to the verdict that was chosen, or else to the last one.
  restore() { this.show(this.pinned ?? this.last); }

  clear() {
    this.stop();
    this.at = this.last = this.pinned = null;
    for (const link of this.links) {
      link.parentElement.dataset.status = '';
      link.querySelector('.path-mark').replaceChildren();
    }
    this.restore();
    const url = new URL(location);
    if (!url.searchParams.get('run')?.startsWith(`${this.root.id}.`)) return;
    url.searchParams.delete('run');
    url.searchParams.delete('schedule');
    history.replaceState(null, '', url);
  }

  // run asks the server for a verdict. Whatever comes of it is the view to go
  // back to; a run that was given up leaves no trace.
  async run(flight) {
    this.stop();
    const seq = this.seq;
    const { path, schedule } = flight;
    flight.abort = new AbortController();
    const dressed = this.dress();
    this.flight = flight;
    if (this.timed(path)) this.show({ path, trouble: `running, ${this.timed(path)}` });
    else if (this.view?.path !== path) this.show({ path });
    this.busy(true);
    const view = { path };
    try {
      Object.assign(view, await this.ask(flight));
      if (!view.trouble && schedule !== undefined) Object.assign(view, { schedule }, this.among(view, flight.pin));
    } catch {
      view.trouble = away;
    }
    await dressed;
    if (seq !== this.seq) return; // given up, or too late
    this.flight = null;
    this.busy(false);
    this.last = view;
    if (flight.pin) this.pinned = view;
    this.show(view);
    announce(view.words ?? this.recordedWords(view));
    if (flight.tap) this.root.querySelector('.says').scrollIntoView({ block: 'nearest' });
  }

  // ask fetches what a run showed, or the trouble that kept it from running.
  async ask({ path, schedule, abort }) {
    const stream = this.timed(path) && abort;
    const query = schedule === undefined ? '' : `?schedule=${encodeURIComponent(schedule)}`;
    const reply = await fetch(`${this.root.dataset.src}/${path}${query}`, {
      headers: { Accept: stream ? 'text/event-stream, text/html' : 'text/html', 'Lockstep-Visitor': visitor },
      signal: abort?.signal,
    });
    keep(reply.headers.get('Lockstep-Visitor'));
    const html = stream && reply.ok ? await (await module('timed')).follow(this, reply, abort.signal) : await reply.text();
    const { content } = Object.assign(document.createElement('template'), { innerHTML: html });
    const verdict = content.querySelector('.verdict');
    if (!reply.ok || !verdict) {
      return { trouble: content.querySelector('[data-part="trouble"]')?.textContent ?? calm[reply.status] ?? unknown };
    }
    const view = { path, ...this.read(verdict), words: verdict.dataset.announce };
    if (schedule === undefined) this.bases.set(path, view);
    return view;
  }

  // among puts a schedule that ran alone among all of its path, where those are
  // known: map and readout go on telling of all.
  among({ path, status, parts }, pin) {
    const base = this.bases.get(path);
    const own = (part) => ownParts.has(part.dataset.part);
    if (!base) {
      const names = new Set(parts.map((part) => part.dataset.part));
      return { status, parts: [...parts, ...[...this.idle.children].filter((part) => !names.has(part.dataset.part))] };
    }
    return {
      status: base.status,
      parts: [
        ...base.parts.filter((part) => !own(part)),
        ...parts.filter((part) => own(part) && (pin || part.dataset.part !== 'scheduler')),
      ],
    };
  }

  // learn fetches all schedules for the one that the page came with.
  async learn(view) {
    const base = await this.ask({ path: view.path }).catch(() => null);
    if (!base?.parts) return;
    const part = (of, name) => of.parts.find((p) => p.dataset.part === name);
    if (part(view, 'map')?.childElementCount) {
      base.parts[base.parts.indexOf(part(base, 'map'))] = part(view, 'map');
      return;
    }
    const names = ['explored', 'map'];
    view.parts = [...view.parts.filter((p) => !names.includes(p.dataset.part)), ...names.map((name) => part(base, name))];
    if (this.view !== view) return;
    this.view = null;
    this.show(view);
  }

  // show puts a view on the page: a live verdict {path, status, parts}, a
  // recorded one {path}, perhaps with the trouble that kept it from running, or
  // none at all.
  show(view) {
    if (view === this.view) return;
    this.view = view;
    let verdict = this.root.querySelector('.say-idle');
    if (view?.parts) {
      this.put(view.parts);
      verdict = this.root.querySelector('.says > [data-part="readout"]');
      const box = this.link(view.path).parentElement;
      const mark = verdict.querySelector('.tag .mark');
      box.dataset.status = view.status;
      box.querySelector('.path-mark').replaceChildren(...(mark ? [mark.cloneNode(true)] : []));
    } else {
      this.put([...this.idle.children].filter((part) => !view || !staying.has(part.dataset.part)));
    }
    if (view && !view.parts) {
      verdict = this.said(view.path);
      verdict.querySelector('.say-source').textContent = view.trouble ? `recorded · ${view.trouble}` : 'recorded';
    }
    this.root.dataset.lit = view ? (view.parts ? 'live' : 'recorded') : '';
    this.root.dataset.status = (view?.parts ? view.status : verdict.dataset.status) ?? '';
    for (const el of this.root.querySelectorAll('.paths > li, .wires path')) {
      el.classList.toggle('lit', el.dataset.path === view?.path);
    }
    for (const el of this.root.querySelectorAll('.says > .say')) el.classList.toggle('on', el === verdict);
    this.root.dispatchEvent(new CustomEvent('shown'));
  }

  busy(on) {
    this.root.querySelector('.readout').setAttribute('aria-busy', on);
  }

  // ---- The figure's own elements

  // timed says how long a path in real time takes; nothing of any other. Such a
  // path runs when it is chosen, not when it is pointed at.
  timed(path) { return this.link(path)?.dataset.timed; }

  // watching tells whether a run that was chosen goes on before the reader's eyes.
  watching() { return this.flight?.pin && this.timed(this.flight.path); }

  link(path) { return this.links.find((a) => a.dataset.path === path); }

  said(path) { return this.root.querySelector(`.says > [data-path="${path}"]`); }

  recordedWords({ path, trouble }) {
    const said = this.said(path);
    return `${said.querySelector('.say-path').textContent}, recorded: ${said.querySelector('.say-text').textContent} ${trouble}`;
  }

  // arrived is the view that the page came with, if it was asked for one.
  arrived() {
    const { run: path, lit } = this.root.dataset;
    if (!path) return null;
    if (lit === 'live') {
      const view = { path, ...this.read(this.root) };
      for (const part of view.parts) this.placed.set(part.dataset.part, part);
      const schedule = new URL(location).searchParams.get('schedule');
      if (schedule === null) {
        this.bases.set(path, view);
      } else {
        view.schedule = schedule;
        this.learn(view);
      }
      return view;
    }
    return { path, trouble: this.said(path).querySelector('.say-source').textContent.split(' · ')[1] };
  }

  copyParts() {
    const parts = document.createDocumentFragment();
    parts.append(...this.read(this.root).parts);
    return parts;
  }

  // read takes the parts of a verdict, so that it can be shown again.
  read(from) {
    return {
      status: from.dataset.status,
      parts: [...from.querySelectorAll('[data-part]')].map((part) => part.cloneNode(true)),
    };
  }

  put(parts) {
    for (const part of parts) {
      const name = part.dataset.part;
      if (this.placed.get(name) === part) continue;
      this.placed.set(name, part);
      const now = part.cloneNode(true);
      const old = this.root.querySelector(`[data-part="${name}"]`);
      const held = old?.contains(document.activeElement) && document.activeElement;
      if (old) old.replaceWith(now);
      else this.root.querySelector('.says').append(now);
      if (held) this.hold(now, held);
    }
  }

  // hold keeps the focus where it was, in a part that took another's place.
  hold(part, held) {
    const same = [...part.querySelectorAll('a, button')].find((el) => held.dataset.pick && el.dataset.pick === held.dataset.pick);
    const to = same ?? part.querySelector('a[data-pick], a[data-path]') ?? this.root;
    if (to === this.root) this.root.tabIndex = -1;
    to.focus({ preventScroll: true });
  }
}

for (const root of document.querySelectorAll('figure.figure')) new Figure(root);
