for (const text of ['', 'nope', 'http://', 'http://a b', 'http://[::g]', '//x', 'http://h:99999', 'http://%']) {
  try { console.log(new URL(text).href); } catch (error) { console.log(error.name, error.code, error.message, error.input); }
}
console.log(URL.canParse('http://x'), URL.canParse('x'), URL.canParse('x', 'http://h'));
