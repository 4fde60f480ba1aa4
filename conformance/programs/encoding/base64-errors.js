console.log(btoa('hello'), atob('aGVsbG8='), btoa(''), atob(' aG k= '), btoa('\xff\xfe'), atob('/+8=').charCodeAt(0));
for (const work of [() => btoa('€'), () => atob('a'), () => atob('%%')]) try { work(); console.log('fine'); } catch (error) { console.log(error.name); }
