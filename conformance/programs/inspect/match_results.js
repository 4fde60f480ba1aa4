console.log('2020-01-02'.match(/(\d+)-(\d+)/));
console.log('2020-01-02'.match(/(?<y>\d+)-(?<m>\d+)/));
console.log('aXbX'.match(/X/g), 'none'.match(/q/), [...'a1b2'.matchAll(/\d/g)].length);
