for (const name of ['utf8', 'UTF-8', 'hex', 'base64', 'base64url', 'latin1', 'ucs-2', 'nope', '']) console.log(name, Buffer.isEncoding(name));
