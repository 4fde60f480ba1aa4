for (let length = 0; length < 8; length++) {
  const b = Buffer.from(Array.from({ length }, (_, i) => 250 + i));
  const text = b.toString('base64url');
  console.log(text, Buffer.from(text, 'base64url').equals(b), Buffer.from(b.toString('base64')).length);
}
