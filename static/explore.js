// Every schedule of a path, as a map: a cell for each, which runs alone when it
// is pointed at. Figure (figure.js) does the running; it is asked by an event
// `explore`, and says by an event `shown` that parts of it are new.

const FEWEST = { wide: 9, narrow: 7 }; // px from one cell to the next: so small they may get,
const MOST = 22; // and so large,
const TALL = { wide: 256, narrow: 232 }; // for the map to be about so high.
const REACH = 24; // px that a tap may miss a cell by

class Orders {
  constructor(root) {
    this.root = root;
    this.page = root.dataset.src.replace(/\/figures\/[^/]*$/, '');
    this.ltr = getComputedStyle(root).direction === 'ltr';
    this.resized = new ResizeObserver(() => this.fit());
    this.tall = new Map(); // px that parts have been high
    this.sheet = new CSSStyleSheet(); // what has to be measured
    document.adoptedStyleSheets.push(this.sheet);

    root.addEventListener('shown', () => this.refresh());
    root.addEventListener('pointerover', (e) => this.over(e));
    root.addEventListener('pointerout', (e) => this.out(e));
    root.addEventListener('focusin', (e) => this.focus(e));
    root.addEventListener('focusout', (e) => this.blur(e));
    root.addEventListener('click', (e) => this.click(e));
    root.addEventListener('keydown', (e) => this.key(e));
    this.refresh();
  }

  // ---- What a reader does

  over(e) {
    if (e.pointerType === 'touch') return; // a tap is a click, and comes as one
    const cell = e.target.closest('.orders-map .cell');
    if (cell) this.point(cell);
  }

  out(e) {
    if (e.pointerType === 'touch' || !e.target.closest('.orders-map')) return;
    if (!this.map?.contains(e.relatedTarget) && !this.map?.contains(document.activeElement)) this.point(null);
  }

  focus(e) {
    const cell = e.target.closest('.orders-map .cell');
    if (!cell) return;
    this.stop = cell;
    // Focus that comes with a click or a tap has nothing of its own to show.
    if (cell.matches(':focus-visible')) this.point(cell);
  }

  blur(e) {
    if (e.target.closest('.orders-map') && !this.map?.contains(e.relatedTarget)) this.point(null);
  }

  click(e) {
    const step = e.target.closest('.orders-steps button');
    if (step) {
      this.broken(step.dataset.to === 'next' ? 1 : -1)?.click();
    } else if (e.target.closest('.orders-map') && !e.target.closest('.cell')) {
      this.nearest(e.clientX, e.clientY)?.click();
    } else if (e.target.closest('.orders-map .cell')) {
      this.stop = e.target.closest('.cell');
    }
  }

  key(e) {
    if (!this.cells?.length || e.metaKey || e.ctrlKey || e.altKey || e.target.closest('input, textarea, select')) return;
    let to;
    if (e.key === 'n' || e.key === 'p') {
      to = this.broken(e.key === 'n' ? 1 : -1);
    } else if (e.target.closest('.orders-map .cell')) {
      const here = this.cells.indexOf(e.target);
      const on = this.ltr ? 1 : -1;
      switch (e.key) {
        case 'ArrowRight': to = this.cells[here + on]; break;
        case 'ArrowLeft': to = this.cells[here - on]; break;
        case 'ArrowDown': to = this.below(here, 1); break;
        case 'ArrowUp': to = this.below(here, -1); break;
        case 'Home': to = this.cells[0]; break;
        case 'End': to = this.cells.at(-1); break;
        case ' ': e.target.click(); break;
        default: return;
      }
    } else {
      return;
    }
    e.preventDefault();
    to?.focus();
  }

  // ---- Finding cells

  // broken is the next cell, in one direction and round the end, in which
  // something breaks.
  broken(by) {
    const n = this.cells.length;
    let i = this.cells.indexOf(this.current);
    for (let tries = 0; tries < n; tries++) {
      i = (i + by + n) % n;
      if ('broken' in this.cells[i].dataset) return this.cells[i];
    }
    return undefined;
  }

  // below is the cell under or over another, in the nearest line of cells that
  // there is.
  below(here, by) {
    const at = this.cells[here].getBoundingClientRect();
    let best;
    let line;
    for (let i = here + by; i >= 0 && i < this.cells.length; i += by) {
      const box = this.cells[i].getBoundingClientRect();
      if (Math.abs(box.top - at.top) < 2) continue;
      if (line !== undefined && Math.abs(box.top - line) > 2) break;
      line = box.top;
      const off = Math.abs(box.left - at.left);
      if (!best || off < best.off) best = { off, cell: this.cells[i] };
    }
    return best?.cell;
  }

  nearest(x, y) {
    let best = { off: REACH };
    for (const cell of this.cells) {
      const box = cell.getBoundingClientRect();
      const off = Math.hypot(x - box.left - box.width / 2, y - box.top - box.height / 2);
      if (off < best.off) best = { off, cell };
    }
    return best.cell;
  }

  // ---- What the map does

  point(cell) {
    const detail = cell && { path: cell.dataset.path, schedule: cell.dataset.schedule };
    this.root.dispatchEvent(new CustomEvent('explore', { detail }));
  }

  // stop is the cell at which the Tab key stops, and from which one goes on.
  set stop(cell) {
    if (this.current) this.current.tabIndex = -1;
    this.current = cell;
    if (cell) cell.tabIndex = 0;
  }

  // refresh takes in that parts of the figure are new.
  refresh() {
    const map = this.root.querySelector('.orders-map');
    if (map !== this.map) {
      if (this.map) this.resized.unobserve(this.map);
      this.map = map;
      this.cells = [];
      this.current = this.selected = null;
      if (map) this.build();
    }
    for (const link of this.root.querySelectorAll('.explored a, .scheduler a')) {
      // A figure may stand on another page than its own.
      if (this.page !== location.pathname && link.getAttribute('href').startsWith('?')) link.href = this.page + link.getAttribute('href');
    }
    this.select(this.root.querySelector('[data-part="timeline"]')?.dataset.schedule);
    this.settle();
  }

  // build makes the cells of a plan; see orderMap.code for how it is written.
  build() {
    const plan = JSON.parse(this.map.dataset.plan);
    const path = this.map.closest('[data-of]').dataset.of;
    const total = plan.cells.split(' ').length;
    const rows = new Map();
    this.rooms = [];
    for (const group of plan.groups) {
      const row = make('div', 'orders-row');
      row.setAttribute('role', 'group');
      row.setAttribute('aria-label', `beginning with ${group.label}`);
      const label = make('code', 'orders-label', group.label);
      label.dir = 'ltr';
      label.title = group.label;
      label.setAttribute('aria-hidden', 'true');
      const cells = make('div', 'orders-cells');
      row.append(label, cells);
      rows.set(group.label, cells);
      this.rooms.push({ cells, room: group.room });
    }
    let moves = [];
    const shared = plan.cells.includes('/');
    plan.cells.split(' ').forEach((text, i) => {
      const [, same, more, bits, some, all] = /^(\d+)(.*):(\w+)(?:\/(\d+)\/(\d+))?$/u.exec(text);
      moves = [...moves.slice(0, same), ...[...more].map((c) => plan.moves[number(c)])];
      const breaks = plan.conditions.filter((_, n) => parseInt(bits, 36) >> n & 1);
      const cell = make('a', `cell ${marks(plan.conditions, parseInt(bits, 36))}`);
      const schedule = moves.join('.');
      cell.href = `${this.page}?run=${this.root.id}.${path}&schedule=${encodeURIComponent(schedule).replaceAll('%3A', ':')}#${this.root.id}`;
      cell.tabIndex = -1;
      cell.setAttribute('role', 'option');
      Object.assign(cell.dataset, { path, schedule });
      if (breaks.length) cell.dataset.broken = '';
      const and = breaks.join(', ').replace(/, ([^,]*)$/, ' and $1');
      if (shared) {
        if (breaks.length) cell.classList.add('cell-shared', `cell-fill-${all ? Math.ceil(some / all * 8) : 8}`);
      }
      if (all) {
        cell.ariaLabel = `Beginning ${i + 1} of ${total}, ${schedule}, ${breaks.length ? `${grouped(some)} of ${grouped(all)} schedules break ${and}` : `none of ${grouped(all)} schedules breaks anything`}`;
      } else {
        cell.ariaLabel = `Schedule ${i + 1} of ${total}, ${schedule}, ${breaks.length ? `breaks ${and}` : 'breaks nothing'}`;
      }
      cell.title = cell.ariaLabel;
      rows.get(moves.slice(0, plan.depth).join('.')).append(cell);
      this.cells.push(cell);
    });
    this.map.setAttribute('role', 'listbox');
    this.map.setAttribute('aria-label', `${shared ? 'Beginnings' : 'Schedules'} of ${this.map.dataset.label}`);
    this.label = Math.min(Math.max(...plan.groups.map((group) => group.label.length)), 12) + 2;
    this.width = 0;
    this.map.replaceChildren(...this.rooms.map(({ cells }) => cells.parentElement));
    this.stop = this.cells[0];
    this.fit();
    this.resized.observe(this.map);
  }

  // fit finds the size at which the cells fill the map and no more. It goes by
  // the room that the other paths of the figure need too, so that going from
  // one to another moves nothing.
  fit() {
    if (!this.width) this.style();
    const width = this.rooms[0].cells.clientWidth;
    if (!width || width === this.width) return;
    if (this.width) this.tall.clear();
    this.width = width;
    const size = width < 480 ? 'narrow' : 'wide';
    let pitch = MOST;
    const lines = (room) => Math.max(1, Math.ceil(room / Math.floor(width / pitch)));
    const height = () => this.rooms.reduce((sum, { room }) => sum + lines(room) * pitch + 4, 0);
    while (pitch > FEWEST[size] && height() > TALL[size]) pitch--;
    this.pitch = pitch;
    this.lines = this.rooms.map(({ room }) => lines(room));
    this.style();
  }

  // select marks the cell whose schedule stands below the map. Of a beginning,
  // it marks all cells that it can still lead to.
  select(schedule) {
    this.selected?.removeAttribute('aria-selected');
    this.selected = null;
    if (!this.cells?.length) return;
    const begins = (long, short) => short !== '' && `${long}.`.startsWith(`${short}.`);
    const exact = this.cells.find((cell) => cell.dataset.schedule === schedule);
    const open = exact || !schedule ? [] : this.cells.filter((cell) => begins(cell.dataset.schedule, schedule));
    this.map.classList.toggle('narrowed', open.length > 0);
    for (const cell of this.cells) cell.classList.remove('cell-open');
    for (const cell of open) cell.classList.add('cell-open');
    this.selected = exact ?? (schedule && !open.length ? this.cells.findLast((cell) => begins(schedule, cell.dataset.schedule)) : null);
    this.selected?.setAttribute('aria-selected', 'true');
    if (this.selected && !this.map.contains(document.activeElement)) this.stop = this.selected;
  }

  // settle keeps what stands above and below the map as high as it has been, so
  // that nothing moves under a pointer that goes from cell to cell.
  settle() {
    let taller = false;
    for (const box of this.root.querySelectorAll('.says, .explorer > :not(:empty), .explored:not(:empty)')) {
      const name = box.dataset.part ?? 'says';
      const px = box.getBoundingClientRect().height; // offsetHeight is rounded
      if (px <= (this.tall.get(name) ?? 0) || name === 'scheduler') continue;
      this.tall.set(name, px);
      taller = true;
    }
    if (taller) this.style();
  }

  // style writes all that was measured as a sheet of rules, since the page's
  // policy is against styles in attributes.
  style() {
    const root = `#${CSS.escape(this.root.id)}`;
    const rules = [`${root} .orders-map { --label: ${this.label ?? 4}ch; --pitch: ${this.pitch ?? MOST}px }`];
    this.lines?.forEach((n, i) => rules.push(`${root} .orders-row:nth-child(${i + 1}) > .orders-cells { min-block-size: ${n * this.pitch}px }`));
    for (const [name, px] of this.tall) {
      rules.push(`${root} ${name === 'says' ? '.says' : `[data-part="${name}"]:not(:empty)`} { min-block-size: ${px}px }`);
    }
    this.sheet.replaceSync(rules.join('\n'));
  }
}

function make(name, classes, text = '') {
  return Object.assign(document.createElement(name), { className: classes, textContent: text });
}

function number(letter) {
  const code = letter.codePointAt(0);
  return code < 256 ? code - 97 : code - 256;
}

function grouped(n) { return Number(n).toLocaleString('en'); }

// marks is how a cell is marked; the Go function of this name does the same.
function marks(conditions, bits) {
  if (!bits) return 'cell-kept';
  if (conditions.length === 1) return 'cell-worst-0 cell-only';
  const classes = [];
  conditions.forEach((_, i) => {
    if (!(bits >> i & 1)) return;
    if (!classes.length) classes.push(`cell-worst-${Math.min(i, 3)}`);
    classes.push(`cell-mark-${Math.min(i, 3)}`);
  });
  return classes.join(' ');
}

for (const root of document.querySelectorAll('figure.figure:has([data-part="map"])')) new Orders(root);
