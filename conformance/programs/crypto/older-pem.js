// Keys under a passphrase in the form that PEM had before PKCS #8: its headers name the cipher.
const c = require('node:crypto');
const { privateKey } = c.generateKeyPairSync('ec', { namedCurve: 'P-256' });
for (const cipher of ['aes-128-cbc', 'aes-192-cbc', 'AES-256-CBC']) {
  const text = privateKey.export({ type: 'sec1', format: 'pem', cipher, passphrase: 'secret' });
  console.log(text.split('\n').slice(0, 2).join('|'), text.split('\n')[2].length, text.split('\n')[3] === '');
  const again = c.createPrivateKey({ key: text, passphrase: 'secret' });
  console.log(again.equals(privateKey), again.asymmetricKeyType);
}
try { privateKey.export({ type: 'sec1', format: 'der', cipher: 'aes-128-cbc', passphrase: 'x' }) } catch (e) { console.log(e.code, e.message) }
// Made by another.
const FOREIGN = `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,89247EBEBAE43F5E266DD81DAA535A60

8bENe86chQA8Z5w8pHBe5QXUGXA/L1bhxO444b5lhFKe6ORVV2sUH5dumx0cPZrW
5w7c3VnStVHvgksq5MgB5S/tWkgASzUTi7XzPyxbCPBpr1xGgtPqC2Szqzr16V7E
iLEf6jcoQL/7NNezSoE26eXVMa453xhiqDPNoIGxVOM=
-----END EC PRIVATE KEY-----
`;
const RSA = `-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,E02053B8958F735E4EEC75CA48B6199E

R9XjJdUMXFpuAhRPvEY40MbWkzQmYtFkkjjH6uYp/5J8LusCxEu0F8/hM1NOlMcw
AqmYauW0zXIsH1eNgsNeW/ErR9O3+0ICc+JkRHrJ+TKFHs3cP/EkiMJw5mXblLM5
OMqfLNui9N9oox7wI9y+N1IfprHW6gubBjwLd2g9v1kJAWexLCDPrTSEJzCm9EEF
Gqu7KD+D+/kkBxhDKZTQicWhyekyfDMHsCJLktnHW+2+nrrfZNtp3QPzZMC9Y69O
tWpAgsV5QlA4xagSlniIxJs6hjeh9vxw04Ug2EW+7p+zAKQVFvb7ttmRQXHe4WVq
1S5lUFtRAVOcTI1ZXxYR/YgsYyaD+9N5d1Uk3XiwCgtTE/Q7vPOp/1RaqA6iGkJK
MElUyzYxiQJl1UDnCVV5oVStBSH0Lg9m8d1W0CF5fZ8JM4S5SiY3DTsjAj9cv0B/
LhFhQVFMsBuZQhWB5X/Jmlv0aLx82jVKRKgbsH4zuR7cIz5TVtLexhxsDz0gznCV
IKdG08lYl+eIcsPW7AKcwWoGpdOHVk7PIaOkes65Z7DmjJAXFBOVkx4H/MOzw37L
DhK5577cD13uPJohxRfp9WCiWk0Twp39dPUkh+ZMctFk/gDCNBndnAOaCZ2vDhPD
AK7yWKBMOluWr7weHtJfYwL/CJX9Zz8i/2g9+QpOUMKs5k5km1SCoLr1n0w4NwYy
pnOsO1tBuVhqWrTDxZtnHtit7Sa7Oa4t51eIqTh7aHTbPMhUv68fjON3/D1byKcD
iOZ7h9GuHp8EBERmsMoCmxnGI+XszEGTUTtPXusYNhlLUKGKVEBd92Ez7lcuyZEl
-----END RSA PRIVATE KEY-----
`;
console.log(c.createPrivateKey({ key: FOREIGN, passphrase: 'secret' }).export({ format: 'jwk' }).d);
console.log(c.createPrivateKey({ key: RSA, passphrase: Buffer.from('pw') }).asymmetricKeyDetails.modulusLength);
try { c.createPrivateKey({ key: FOREIGN, passphrase: 'wrong' }) } catch (e) { console.log(e.code, e.message) }
