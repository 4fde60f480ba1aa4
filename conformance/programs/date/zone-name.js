console.log(String(new Date(0)), new Date(0).toTimeString(), new Date(-1e14).toString());
