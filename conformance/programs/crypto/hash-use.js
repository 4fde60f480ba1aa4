const { createHash } = require('crypto');
const h = createHash('sha256').update('a');
const copy = h.copy();
console.log(h.update('b').digest('hex') === createHash('sha256').update('ab').digest('hex'), copy.digest('hex') === createHash('sha256').update('a').digest('hex'), createHash('sha1').update('x').digest() instanceof Buffer);
try { h.update('c'); } catch (error) { console.log(error.code); }
try { h.digest(); } catch (error) { console.log(error.code); }
try { createHash('nope'); } catch (error) { console.log(error.message); }
try { createHash('md5').update(5); } catch (error) { console.log(error.code); }
