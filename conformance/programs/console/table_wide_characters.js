console.table([{ 漢: '字', emoji: 'é' }, { 漢: '文字', emoji: 'abc' }]);
