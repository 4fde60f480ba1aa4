console.log(['x'.repeat(200)]);
console.log({ text: 'word '.repeat(40) });
console.log(['first line\nsecond line that is rather long so that it does not fit on one line\nthird']);
console.log({ key: 'first line\nsecond line that is rather long so that it does not fit on one line\n' });
console.log(['a\nb']);
