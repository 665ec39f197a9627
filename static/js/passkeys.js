// Passkeys: shows what the browser can do and says in the page what went wrong. The scripts of allauth do the rest.
(() => {
  const SAID = {
    InvalidStateError: "This key belongs to your account already.",
    NotAllowedError: "The browser has used no passkey: it was cancelled, took too long, or there is none for this site.",
    SecurityError: "Passkeys do not work at this address. They need a host name, and https unless it is localhost.",
  };
  const usable = Boolean(window.PublicKeyCredential) && window.isSecureContext;

  document.addEventListener("allauth.error", (event) => {
    event.preventDefault();
    const place = document.querySelector("[data-passkey-error]");
    place.textContent = SAID[event.detail.exception.name] || "The passkey could not be used. Reload the page and try again.";
    place.hidden = false;
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-passkeys]").forEach((item) => { item.hidden = !usable; });
  });
})();
