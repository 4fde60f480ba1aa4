console.log('%d %d %d %d %d', 5, '6', 7.5, 'x', {}); console.log('%d', 12n); console.log('%d', Symbol('s')); console.log('%d', -0); console.log('%d', null); console.log('%d', '');
console.log('%i %i %i %i', 5.9, '6.7px', 'x', {}); console.log('%i', 12n); console.log('%i', Symbol('s')); console.log('%i', -0.5);
console.log('%f %f %f', 5.5, '6.25abc', 'x'); console.log('%f', Symbol('s')); console.log('%f', -0);
