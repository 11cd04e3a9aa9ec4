// Paths in real time: draws a run as the server tells of it, and goes through a
// finished one moment by moment.
//
// The server draws. While a run goes on it sends those tracks of the picture
// that have changed; what moves between two of its messages, the cursor and the
// lease that drains, moves here by the clock.

const still = matchMedia('(prefers-reduced-motion: reduce)');
const CALM = 100; // ms between two changes of a text that counts

const parse = (html) => Object.assign(document.createElement('template'), { innerHTML: html }).content;
const whole = (us) => `${Math.round(us / 1000).toLocaleString('en')} ms`;
const left = (ms) => (ms >= 0 ? `${Math.round(ms).toLocaleString('en')} ms left` : ms === -1 ? 'no expiry' : '');

// moment shows one moment of a run: the cursor, the words, the lease. The words
// come from the server, with when they began to hold.
function moment(root, at, said, words = true) {
  const at0 = Number(said.at);
  const ttl = Number(said.left);
  const now = ttl < 0 ? ttl : Math.max(0, ttl - (at - at0) / 1000);
  root.style.setProperty('--at', Math.min(1, at / root.dataset.length));
  const part = (name) => root.querySelector(`[data-now="${name}"]`);
  part('bar')?.setAttribute('width', `${now === -1 ? 100 : Math.min(100, (100 * Math.max(0, now)) / root.dataset.full)}%`);
  if (!words) return '';
  part('at').textContent = whole(at);
  part('held').textContent = said.held;
  part('left').textContent = left(now);
  part('more').textContent = said.more;
  part('who').textContent = said.who;
  part('done').textContent = said.done;
  return `at ${whole(at)}: ${[said.held, left(now), said.more].filter(Boolean).join(', ')}`;
}

// ---- A run under way

class Live {
  constructor(figure) {
    this.figure = figure;
    this.base = Infinity; // when the path began, on this page's clock
    this.spoke = 0;
    this.frame = 0;
  }

  // tracks puts what has changed into the picture.
  tracks(html) {
    for (const part of [...parse(html).children]) {
      if (part.dataset.part) this.figure.put([part]);
      else this.root.querySelector(`[data-track="${CSS.escape(part.dataset.track)}"]`)?.replaceWith(part);
    }
    if (!this.root || this.frame) return;
    this.root.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
    const draw = () => {
      this.draw();
      this.frame = requestAnimationFrame(draw);
    };
    draw();
  }

  get root() { return this.figure.root.querySelector('.timed'); }

  // heard sets the clock: no message comes before its time, so the one that
  // comes soonest is the truest.
  heard(us) {
    const zero = Number(this.root?.dataset.zero ?? 0);
    this.base = Math.min(this.base, performance.now() - (us - zero) / 1000);
  }

  sample({ at_us, key }) {
    this.heard(at_us);
    const now = this.root?.querySelector('.now');
    if (!now || !key) return;
    now.dataset.at = at_us - this.root.dataset.zero;
    now.dataset.left = key.ttl;
  }

  draw() {
    const { root } = this;
    const now = root?.querySelector('.now');
    if (!now || this.base === Infinity) return;
    root.dataset.moment = '';
    const t = performance.now();
    const words = t - this.spoke >= CALM;
    if (words) this.spoke = t;
    moment(root, Math.min((t - this.base) * 1000, root.dataset.length), now.dataset, words);
  }

  end() { cancelAnimationFrame(this.frame); }
}

function trouble(words) {
  const p = Object.assign(document.createElement('p'), { textContent: words });
  p.dataset.part = 'trouble';
  return p.outerHTML;
}

// follow reads the events of a run until it has ended, and returns the HTML of
// its verdict, or of the trouble that ended it.
export async function follow(figure, reply, signal) {
  const before = figure.placed.get('timed') ?? [...figure.idle.children].find((part) => part.dataset.part === 'timed');
  const live = still.matches ? null : new Live(figure);
  const heard = {
    entry: (data) => live?.heard(JSON.parse(data).at_us),
    sample: (data) => live?.sample(JSON.parse(data)),
    tracks: (data) => live?.tracks(data),
  };
  let ended = false;
  try {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) throw new Error('the stream was cut off');
      const events = (rest + value).split('\n\n');
      rest = events.pop();
      for (const event of events) {
        const lines = event.split('\n');
        const kind = lines[0].slice('event: '.length);
        const data = lines.slice(1).map((line) => line.slice('data: '.length)).join('\n');
        if (kind === 'verdict') {
          ended = true;
          return data;
        }
        if (kind === 'trouble') return trouble(data);
        heard[kind]?.(data);
      }
    }
  } finally {
    live?.end();
    if (!ended) figure.put([before]); // no half pictures
  }
}

// ---- A finished run

document.addEventListener('input', ({ target }) => {
  if (!target.matches('.timed-range')) return;
  const root = target.closest('.timed');
  const at = Number(target.value);
  const rows = [...root.querySelectorAll('.moments tbody tr')];
  const past = rows.filter((row) => row.dataset.at <= at);
  root.dataset.moment = '';
  for (const row of rows) row.classList.toggle('later', row.dataset.at > at);
  const said = past.at(-1)?.dataset ?? { at: 0, left: -2, held: '', more: '', who: '', done: '' };
  root.querySelector('.now').dataset.left = said.left;
  target.ariaValueText = moment(root, at, said);
});
