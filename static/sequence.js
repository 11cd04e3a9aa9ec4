// A single run as a picture of who sent what, gone through step by step: by the
// two buttons, or with the arrow keys on the slider between them.

function go(seq, to) {
  const range = seq.querySelector('.seq-range');
  const rows = [...seq.querySelectorAll('.seq-run > .seq-row')];
  range.value = to;
  rows.forEach((row, i) => {
    row.classList.toggle('seq-now', i === to - 1);
    row.classList.toggle('seq-later', i >= to);
  });
  range.ariaValueText = `step ${to} of ${rows.length}, ${rows[to - 1].dataset.says}`;
  seq.dataset.at = to;
}

document.addEventListener('input', ({ target }) => {
  if (target.matches('.seq-range')) go(target.closest('.seq'), Number(target.value));
});

document.addEventListener('click', ({ target }) => {
  const button = target.closest('.seq-steps > [data-step]');
  if (!button) return;
  const seq = button.closest('.seq');
  const { value, max } = seq.querySelector('.seq-range');
  const by = Number(button.dataset.step);
  // All of the run stands there at first: forward begins it, and so it does at its end.
  const to = by > 0 && value === max ? 1 : Number(value) + by;
  go(seq, Math.max(1, to));
});
