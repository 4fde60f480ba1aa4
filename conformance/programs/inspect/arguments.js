(function () { console.log(arguments); })(1, 'two');
(function () { console.log([arguments]); })();
