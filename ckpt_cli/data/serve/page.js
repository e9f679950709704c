// Keys go to the screen from the start, without a click.
window.addEventListener("load", () => document.querySelector(".xterm-helper-textarea").focus());
