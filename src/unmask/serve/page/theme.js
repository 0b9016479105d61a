// Before anything is drawn: the theme chosen last time. A plain script, so that the page never flashes.
try {
  const theme = localStorage.getItem("unmask-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // no storage: the system's preference holds
}
