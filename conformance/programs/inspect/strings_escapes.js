console.log(['a\nb', 'tab\t', 'nul\0', 'bell\x07', 'esc\x1b', 'del\x7f', 'c1\x85', 'back\\slash', '\b\f\r\v', 'é ü 漢字 😀']);
console.log(['\ud800', 'x\udc00y', '\ud83d\ude00', '\ud83d']);
