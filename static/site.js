// What a page does besides its figures: the theme, copying, what has been read,
// and a table of contents that follows.

// ---- Theme: the system's, unless the reader chose

const themes = ['system', 'light', 'dark'];
const store = {
  get(key) { try { return localStorage.getItem(key); } catch { return null; } },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch { /* Storage is closed to this page: nothing is remembered. */ }
  },
};

const themeSwitch = document.querySelector('[data-theme-switch]');
function theme(name) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeSwitch.querySelector('[data-theme-name]').textContent = name;
}
theme(document.documentElement.dataset.theme ?? 'system');
themeSwitch.addEventListener('click', () => {
  const now = document.documentElement.dataset.theme ?? 'system';
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  theme(next);
  store.set('lockstep.theme', next === 'system' ? null : next);
});

// ---- Copying code

for (const pre of document.querySelectorAll('.body pre')) {
  if (pre.closest('.listing, .ran')) continue;
  const box = document.createElement('div');
  box.className = 'code-box';
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'copy', textContent: 'Copy' });
  button.dataset.copy = '';
  pre.replaceWith(box);
  box.append(pre, button);
}
document.addEventListener('click', async (e) => {
  const button = e.target.closest('[data-copy]');
  if (!button) return;
  const label = button.dataset.label ??= button.textContent;
  let done = 'Copied';
  try {
    await navigator.clipboard.writeText(button.closest('.listing, .code-box').querySelector('pre').textContent);
  } catch {
    done = 'Select and copy by hand';
  }
  button.textContent = done;
  setTimeout(() => { button.textContent = label; }, 1600);
});

// ---- What has been read, kept on this device only

const readKey = 'lockstep.read';
const readVersion = 1;

function readPages() {
  try {
    const kept = JSON.parse(store.get(readKey));
    if (kept?.version === readVersion) return kept.pages;
  } catch { /* Kept by another version of the site. */ }
  return {};
}

function showRead() {
  const pages = readPages();
  for (const mark of document.querySelectorAll('[data-read]')) mark.hidden = !(mark.dataset.read in pages);
  const reset = document.querySelector('[data-reset]');
  if (!reset) return;
  const n = Object.keys(pages).length;
  reset.hidden = n === 0;
  reset.querySelector('[data-reset-count]').textContent = `You have read ${n} ${n === 1 ? 'page' : 'pages'}; only this device knows.`;
}

showRead();
addEventListener('pageshow', showRead);
document.querySelector('[data-reset] button')?.addEventListener('click', () => {
  store.set(readKey, null);
  showRead();
});

// A page is read when its end has been on the screen.
const page = document.querySelector('article[data-page]');
const end = page?.querySelector('[data-end]');
if (end) {
  new IntersectionObserver((entries, watch) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    const pages = readPages();
    pages[page.dataset.page] = new Date().toISOString().slice(0, 10);
    store.set(readKey, JSON.stringify({ version: readVersion, pages }));
    showRead();
  }).observe(end);
}

// ---- The table of contents follows

const entries = new Map();
for (const link of document.querySelectorAll('.toc a')) {
  const heading = document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (heading) entries.set(heading, link);
}
if (entries.size) {
  const headings = [...entries.keys()];
  const begun = new Set(); // those above the upper third
  // All that is above that line counts as in sight, so that a jump is noticed
  // too. To ask for where headings are would lay out the whole page.
  const watch = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) begun[isIntersecting ? 'add' : 'delete'](target);
    const here = headings.findLast((heading) => begun.has(heading));
    for (const [heading, link] of entries) {
      if (heading === here) link.ariaCurrent = 'location';
      else link.removeAttribute('aria-current');
    }
  }, { rootMargin: '1000000px 0px -66.7% 0px' });
  for (const heading of headings) watch.observe(heading);
}
