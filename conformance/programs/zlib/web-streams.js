(async () => {
  for (const format of ['gzip', 'deflate', 'deflate-raw']) {
    const packed = new Blob(['web '.repeat(1000)]).stream().pipeThrough(new CompressionStream(format));
    const text = await new Response(packed.pipeThrough(new DecompressionStream(format))).text();
    console.log(format, text.length, text.slice(0, 8));
  }
  try { new CompressionStream('zip'); } catch (error) { console.log(error.name); }
  const bad = new Blob(['nothing packed']).stream().pipeThrough(new DecompressionStream('gzip'));
  await new Response(bad).text().catch((error) => console.log(error instanceof Error));
  console.log(Object.prototype.toString.call(new CompressionStream('gzip')));
})();
