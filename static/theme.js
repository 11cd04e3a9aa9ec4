// Runs before the page is drawn, so that a remembered theme shows no flash.
(() => {
  const root = document.documentElement;
  root.classList.add('js');
  try {
    const theme = localStorage.getItem('lockstep.theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch {
    // Storage may be closed to this page; the system's theme stays.
  }
})();
