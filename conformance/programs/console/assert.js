console.assert(true, 'unseen'); console.assert(false, 'on stderr'); console.assert(); console.log('end');
