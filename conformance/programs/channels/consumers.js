const consumers = require('node:stream/consumers');
const { Readable } = require('stream');
const channels = require('node:diagnostics_channel');
(async () => {
  console.log(await consumers.text(Readable.from(['a', 'b', 'ç'])));
  console.log(await consumers.json(Readable.from([Buffer.from('{"a":'), Buffer.from('[1]}')])));
  console.log(await consumers.buffer(Readable.from([Buffer.from('x'), Buffer.from('yz')])));
  console.log((await consumers.arrayBuffer(Readable.from([Buffer.from('xyz')]))).byteLength, (await consumers.blob(Readable.from(['four']))).size);
  console.log(await consumers.text(new Blob(['of the web']).stream()));
  const channel = channels.channel('mine');
  const listener = (message, name) => console.log('heard', message, name);
  channel.publish('nobody');
  channels.subscribe('mine', listener);
  channel.publish({ a: 1 });
  console.log(channel.hasSubscribers, channels.hasSubscribers('mine'), channels.unsubscribe('mine', listener), channel.hasSubscribers, channels.channel('mine') === channel);
})();
