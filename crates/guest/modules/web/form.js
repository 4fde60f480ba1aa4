import { FormData, formDataToBlob } from 'formdata-polyfill/esm.min.js';

// Values of one name are shown together.
require('web/shown').shows(FormData, 'FormData', (form) => Object.fromEntries([...new Set(form.keys())].map((name) => [name, form.getAll(name).length > 1 ? form.getAll(name) : form.get(name)])));

export { FormData, formDataToBlob };
