console.log('%cstyled%c plain', 'color: red', ''); console.log('%c', 'color: blue'); console.log('a %c b', 'c', 'd'); console.log('%cX', 'css', { a: 1 });
