// SPDX-License-Identifier: GPL-3.0-or-later
// The search of the pages runs in a Worker. Browsers start none from a file:// address, so there the script of the
// Worker runs in a hidden frame instead, which passes messages in the same way.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    #waiting = [];
    #frame = document.createElement("iframe");

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const page = this.#frame.contentDocument;
      page.open(); // from here on the browser does not replace the empty page by another one
      page.write("<!doctype html><title>search</title>");
      page.close();
      this.#frame.contentWindow.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      };
      const script = page.createElement("script");
      script.src = address;
      script.onload = () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      page.head.append(script);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  }
  window.Worker = FrameWorker;
}
