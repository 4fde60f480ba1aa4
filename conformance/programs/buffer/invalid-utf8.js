for (const hex of ['ff', 'c3', 'e282', 'f09f98', '80', 'c080', 'eda080', '41ff42']) console.log(hex, JSON.stringify(Buffer.from(hex, 'hex').toString()));
