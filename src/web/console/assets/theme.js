// Before anything is painted: the theme that was chosen here, and that there are scripts at all.
const root = document.documentElement
root.classList.add('js')
try {
  const chosen = localStorage.getItem('sandman-theme')
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen
} catch {
  // A browser that keeps nothing follows its system.
}
