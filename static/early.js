// Runs before the page is drawn, so that nothing flashes.
(() => {
  const root = document.documentElement;
  root.classList.add('js');
  try {
    const theme = localStorage.getItem('lockstep.theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch {
    // Storage may be closed to this page; the system's theme stays.
  }
  // A page that doesn't begin at its top may begin at any figure: the sheets that
  // could wait come with it.
  if (!location.hash && performance.getEntriesByType('navigation')[0]?.type === 'navigate') return;
  for (const link of document.querySelectorAll('link[data-sheet]')) {
    link.replaceWith(Object.assign(document.createElement('link'), { rel: 'stylesheet', blocking: 'render', href: link.href }));
  }
})();
