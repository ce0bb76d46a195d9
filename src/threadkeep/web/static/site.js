// What the pages do in the browser.
