const t = new EventTarget();
const f = (event) => console.log(event.type, event.detail, event.cancelable, event.defaultPrevented);
t.addEventListener('x', f);
t.addEventListener('x', f);
t.addEventListener('x', { handleEvent(event) { event.preventDefault(); console.log('object'); } });
console.log(t.dispatchEvent(new CustomEvent('x', { detail: 7, cancelable: true })));
t.removeEventListener('x', f);
console.log(t.dispatchEvent(new Event('x')));
