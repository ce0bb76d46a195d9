// The list renews itself while its top is looked at. Who has scrolled or stands on a row is asked
// first: nothing moves under a reader.

const news = document.getElementById("news");
const results = document.getElementById("results");

function renew() {
  news.hidden = true;
  news.dispatchEvent(new CustomEvent("refresh"));
}

const isRead = () => scrollY > 100 || results.contains(document.activeElement);

news?.addEventListener("live", () => {
  if (isRead()) news.hidden = false;
  else renew();
});
news?.querySelector("button").addEventListener("click", () => {
  scrollTo({ top: 0, behavior: "instant" });
  renew();
});
