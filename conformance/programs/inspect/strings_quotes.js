console.log(['plain', "it's", 'say "hi"', `both ' and "`, "all ' \" `", 'dollar ${x} \' "', '']);
