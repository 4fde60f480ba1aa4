import { sha256 } from '@noble/hashes/sha2';
import { blake3 } from '@noble/hashes/blake3';
import { hkdf } from '@noble/hashes/hkdf';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';
console.log(bytesToHex(sha256('abc')));
console.log(bytesToHex(blake3(utf8ToBytes('größer'), { dkLen: 20 })));
console.log(bytesToHex(hkdf(sha256, new Uint8Array([1, 2, 3]), 'salt', 'info', 24)));
