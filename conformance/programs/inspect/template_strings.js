const show = (s, ...v) => console.log(s, v);
show`a${1}b${2}c`;
