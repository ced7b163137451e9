// Sorts a table by the column whose heading was clicked: by number where both cells begin with one.
document.querySelectorAll('table.sortable').forEach(table => {
  table.querySelectorAll('th').forEach((head, column) => head.addEventListener('click', () => {
    const body = table.tBodies[0], up = head.dataset.order !== 'up';
    table.querySelectorAll('th').forEach(other => delete other.dataset.order);
    head.dataset.order = up ? 'up' : 'down';
    const text = row => row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [parseFloat(text(a)), parseFloat(text(b))];
      const order = isNaN(x) || isNaN(y) ? text(a).localeCompare(text(b)) : x - y;
      return up ? order : -order;
    });
    body.append(...rows);
  }));
});
