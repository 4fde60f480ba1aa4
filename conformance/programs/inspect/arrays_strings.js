console.log(Array.from({ length: 30 }, (_, i) => 'item' + i));
console.log(Array.from({ length: 12 }, (_, i) => 'x'.repeat(i)));
console.log(Array.from({ length: 8 }, (_, i) => 'word'.repeat(i + 1)));
console.log(['apple', 'banana', 'cherry', 'dragonfruit', 'elderberry', 'fig', 'grape', 'honeydew']);
console.log(Array.from({ length: 7 }, () => 'the same rather long text here'));
