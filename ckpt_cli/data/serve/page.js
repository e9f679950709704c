// Keys go to the screen without a click, as soon as it sends something. Before, the socket is not
// open, and a terminal that gets or loses the focus would fail to say so.
new MutationObserver((_, observer) => {
  if (document.body.classList.contains("-first-byte")) {
    observer.disconnect();
    document.querySelector(".xterm-helper-textarea").focus();
  }
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["class"] });
