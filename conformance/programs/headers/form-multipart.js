// A form of several parts comes back as it was sent: fields, files, names with quotes and lines, empty values, bytes that are no text.
const form = new FormData();
form.append('plain', 'ä ✓');
form.append('empty', '');
form.append('a "quoted"\r\nname', 'two\r\nlines');
form.append('file', new File([new Uint8Array([0, 13, 10, 45, 45, 255])], 'b"in.dat', { type: 'application/x-thing' }));
form.append('plain', 'again');
const read = await new Response(form).formData();
for (const [name, value] of read) {
  if (typeof value === 'string') console.log(JSON.stringify([name, value]));
  else console.log(JSON.stringify([name, value.name, value.type, [...new Uint8Array(await value.arrayBuffer())]]));
}
console.log(read.getAll('plain').length);
const given = '--x\r\nContent-Disposition: form-data; name="a"; filename="c.txt"\r\n\r\nno type\r\n--x\r\nContent-Disposition: form-data; name="b"\r\n\r\n\r\n--x--\r\n';
const other = await new Request('http://example.com/', { method: 'POST', body: given, headers: { 'content-type': 'multipart/form-data; boundary=x' } }).formData();
console.log(other.get('a').name, other.get('a').type, await other.get('a').text(), JSON.stringify(other.get('b')));
for (const [body, type] of [['--x\r\n', 'multipart/form-data; boundary=x'], ['--x--', 'multipart/form-data'], ['nothing', 'multipart/form-data; boundary=x'], ['a=1', 'text/plain']]) {
  await new Response(body, { headers: { 'content-type': type } }).formData().then(() => console.log('a form'), (error) => console.log(error.name));
}
