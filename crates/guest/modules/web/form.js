import { FormData, formDataToBlob } from 'formdata-polyfill/esm.min.js';

export { FormData, formDataToBlob };
