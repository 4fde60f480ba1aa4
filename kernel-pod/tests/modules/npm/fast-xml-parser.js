import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser';
const text = '<?xml version="1.0"?><a x="1"><!-- c --><b>2</b><b><![CDATA[<3>]]></b><c>&lt;&#228;</c><d/></a>';
const options = { ignoreAttributes: false, parseAttributeValue: true, commentPropName: '#comment', cdataPropName: '#cdata', htmlEntities: true };
const tree = new XMLParser(options).parse(text);
console.log(JSON.stringify(tree));
console.log(new XMLBuilder({ ...options, format: true }).build(tree));
console.log(XMLValidator.validate('<a><b></a>'));
