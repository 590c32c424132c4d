"""Stop words by language: words that say nothing about the tool that a request needs. They are folded: lower case, no accents.

The lists have the grammatical words of each language, and words that people say to an assistant out of politeness ("please",
"could you"). They do not have verbs that name the action of a tool (get, list, show, send), nor the particles that change the
meaning of such verbs (log out, turn off, sign up).
"""

from __future__ import annotations

from typing import Literal

Language = Literal["english", "spanish", "portuguese", "german", "french"]
LANGUAGES: tuple[Language, ...] = ("english", "spanish", "portuguese", "german", "french")

_ENGLISH = """
a about actually after again ain all already also am an and any anyone anything are aren as at be because been before being
but by can cannot could couldn d did didn do does doesn doing don done during each either else ever every few for from
further give going gonna good got great had hadn has hasn have haven having he hello help her here hers herself hey hi him
himself his how hows i if im in into is isn it its itself just kind know let lets like ll look looking looks m make may
maybe me might mine more most much must my myself need needed needs no nor not now of oh ok okay on once one only or
other our ours ourselves own perhaps please possible quite re really right s same say shall she should shouldn since
so some someone something such sure t tell than thank thanks that thats the their theirs them themselves then there these
they thing things think this those though through to too try trying until upon us use used using ve very wanna want
wanted wants was wasn way we well were weren what whats when where whether which while who whom whose why will wish with
within without won wondering would wouldn yeah yep yes yet you your yours yourself yourselves
"""
_SPANISH = """
a al algo alguien alguna algunas alguno algunos ante antes aqui asi aun aunque bien buenas bueno buenos cada como con cual
cuales cualquier cuando cuanta cuantas cuanto cuantos de deberia del desde dia dias donde dos e el ella ellas ello ellos en
entre era eres es esa esas ese eso esos esta estaba estan estar estas este esto estos estoy favor fue fueron gracias gustaria
ha haber habia hace hacer hacia han has hasta hay he hola la las le les lo los mas me mi mia mientras mio mis mucho muchos
muy nada necesita necesito ni no nos nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poder
podria podrias por porque pueda puede pueden puedes puedo pues que quien quienes quiere quiero quisiera se sea segun ser si
sido siempre sin sobre solo son soy su sus tal tambien tampoco tan tanto te tenemos tener tengo ti tiene tienen tienes toda
todas todavia todo todos tu tus tuya tuyo un una unas uno unos usted ustedes va vamos voy y ya yo
"""
_PORTUGUESE = """
a agora ai ainda alguem algum alguma algumas alguns ante antes ao aos apenas aquela aquelas aquele aqueles aquilo as assim
ate bem boa boas bom cada coisa com como da das de dela delas dele deles depois desde dessa desse desta deste disso disto do
dos e ela elas ele eles em entao entre era essa essas esse esses esta estao estar estas estava este estes estou eu fazer
foi foram gostaria ha isso isto ja la lhe lhes mais mas me mesma mesmo meu meus minha minhas muita muito muitos na nada nao
nas nem nenhum nenhuma nesta neste no nos nossa nossas nosso nossos num numa o obrigada obrigado oi ola onde os ou outra
outras outro outros para pela pelas pelo pelos pode podem poderia posso por porem porque pra precisa preciso qual quais
qualquer quando quanta quantas quanto quantos que quem quer queria quero sao se seja sem ser seu seus si sim so sobre sou
sua suas tal tambem tao te tem temos tenho ter teu teus toda todas todo todos tu tua tudo tuas um uma umas uns vai voce voces
vou
"""
_GERMAN = """
aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist bitte brauche
braucht da dabei dafur damit danke dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese
diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines einige einmal er es etwas euch euer
eure fur gegen gerne gibt gut habe haben hallo hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren
ihrer im in indem ins ist ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinem keinen keiner konnen
konnte konnten konntest mal man manche mehr mein meine meinem meinen meiner mich mir mit mochte mochten muss mussen nach
nein nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen
sollte solche sondern sonst uber um und uns unser unsere unserem unseren unter viel viele vom von vor war waren warum was
weg weil welche welchem welchen welcher welches wenn wer werde werden wie wieder will willst wir wird wirst wo wollen wurde
wurden zu zum zur zwar zwischen
"""
_FRENCH = """
a afin ai ainsi alors apres as au aucun aucune aujourd aura aussi autre autres aux avait avant avec avez avoir avons bien
bonjour bonsoir c ca car ce ceci cela celle celles celui ces cet cette ceux chaque chez ci comme comment d dans de depuis des
deux dois doit donc dont du elle elles en encore entre es est et etaient etait etant ete etes etre eu eux faire fait fais
faut font hui il ils j je jusqu jusque l la le les leur leurs lors lui ma mais me meme memes merci mes moi moins mon n ne ni
non nos notre nous on ont ou oui par parce pas peu peut peux plus plusieurs pour pourquoi pourrais pourriez pouvez puis
puisque qu quand que quel quelle quelles quelque quelques quels qui quoi s sa salut sans se selon sera ses si sinon soi soit
sommes son sont sous suis sur svp t ta te tes toi ton tous tout toute toutes tres trop tu un une unes uns va vais vers veut
veux voila vos votre voudrais voulez vous y
"""

STOP_WORDS: dict[Language, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "spanish": frozenset(_SPANISH.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
}
