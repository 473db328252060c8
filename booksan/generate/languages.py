"""What players write, in seven languages: templates, the words for their slots, and short remarks.

Adjectives and nouns are chosen so that any of them fits into its slot.
"""

from typing import NamedTuple

from booksan.generate.generator import Chance


def _choices(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split("|"))


class Language(NamedTuple):
    things: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    #: Sentences by tone: glad, even, sad.
    glad: tuple[str, ...]
    even: tuple[str, ...]
    sad: tuple[str, ...]
    #: Texts of a few words by tone, glad and sad.
    cheers: tuple[str, ...]
    groans: tuple[str, ...]
    #: Stands between two sentences.
    glue: str = " "


ENGLISH = Language(
    _choices(
        """the combat|the soundtrack|the crafting|the campaign|the multiplayer|the story|the map|
        the tutorial|the ending|the boss fight in the swamp|the voice acting|the level design|
        the inventory|the physics|the matchmaking|the controller support|the early game|the grind|
        the art style|the last update|the servers|the skill tree|the stealth part|the dialogue|
        the base building|the driving|the camera|the menu|the mod support|the difficulty curve"""
    ),
    _choices(
        """great|awesome|fantastic|really fun|amazing|brilliant|addictive|gorgeous|smooth|perfect|
        worth every cent|better than I expected|a blast with friends|surprisingly deep|charming|
        just beautiful|the best part|very satisfying|polished|hilarious"""
    ),
    _choices(
        """terrible|boring|broken|full of bugs|awful|unplayable|a joke|repetitive|laggy|clunky|
        a waste of money|worse after every patch|unfinished|a mess|pay to win|frustrating|ugly|
        the reason I want a refund|lazy|disappointing"""
    ),
    (
        "I have played this for {n} hours and {thing} is still {good}!",
        "Honestly, {thing} is {good}, and so is almost everything else.",
        "If you like this kind of game you should buy it, because {thing} is {good}.",
        "{thing} is {good} and I can't stop playing.",
        "My friends and I lost {n} hours to this game, {thing} is {good}.",
        'Everybody told me "{thing} is {good}", and they were right.',
        "Pros: {thing} is {good}, {thing} is {good}.\nCons: none that I know of.",
        "Bought it on sale for {n} dollars, would have paid twice as much since {thing} is {good}.",
        "The developers listen to the community, which is why {thing} is {good} now.",
        "10/10 would get killed by the same bear again, {thing} is {good}.",
    ),
    (
        "It took me about {n} hours to finish, then I started again with another character.",
        "You begin with nothing and after {n} minutes you understand how {thing} works.",
        "There are {n} missions, and most of them take place in the city or around it.",
        "I played it with a controller on an old laptop with {n} frames per second.",
        "Compared with the first part, {thing} has changed and the rest is the same.",
        "Wait for a sale if you are not sure about {thing}.",
        "I will update this review when they release the next patch.",
        "It runs on my machine without problems after I changed {n} settings.",
    ),
    (
        "I wanted to like this game but {thing} is {bad}.",
        "After {n} hours I can say that {thing} is {bad} and nobody cares.",
        "Do not buy this, {thing} is {bad} and it crashes every {n} minutes.",
        "{thing} is {bad}, {thing} is {bad}, and support never answered me.",
        "They promised a lot in {n} trailers and now {thing} is {bad}.",
        'The store page says "{good}", I say {thing} is {bad}.',
        "I got stuck in a wall {n} times because {thing} is {bad}.",
        "Uninstalled after {n} minutes. {thing} is {bad}!",
        "It used to be fun, but since the update {thing} is {bad}.",
        "Save your money, {thing} is {bad}, I am asking for a refund.",
    ),
    _choices(
        """good game|nice|great game, buy it|10/10|best game ever|I love it|very fun|awesome!!!|
        fun with friends|yes|worth it|♥♥♥♥ing amazing|Great game :)|Early Access Review|lol|
        9/10 would play again|GOTY|must have|it's ok I guess|pretty good|Early Access Review|👍"""
    ),
    _choices(
        """bad|boring|trash|don't buy|refund pls|0/10|not worth it|it crashes|waste of money|no|
        what a piece of ♥♥♥♥|dead game|pay2win|unplayable|I want my money back|Early Access Review|
        worst game I ever played|meh|too many bugs|servers are down again|👎"""
    ),
)
GERMAN = Language(
    _choices(
        """die Grafik|das Kampfsystem|die Geschichte|der Mehrspielermodus|die Steuerung|
        der Soundtrack|die Welt|der Schwierigkeitsgrad|die Übersetzung|das Ende"""
    ),
    _choices(
        "großartig|wirklich schön|super|genial|sehr gelungen|spaßig|fesselnd|überraschend gut"
    ),
    _choices("langweilig|völlig kaputt|furchtbar|enttäuschend|voller Fehler|nervig|unspielbar"),
    (
        "Ich habe {n} Stunden gespielt und {thing} ist einfach {good}.",
        "Für den Preis kann man nichts falsch machen, {thing} ist {good}!",
        "Endlich mal wieder ein Spiel, bei dem {thing} {good} ist.",
        "Klare Kaufempfehlung, denn {thing} ist {good}.",
    ),
    (
        "Man braucht ungefähr {n} Stunden, bis man alles gesehen hat.",
        "Mit meinem alten Rechner läuft es nach {n} Versuchen ohne Probleme.",
    ),
    (
        "Leider ist {thing} {bad}, deshalb kann ich das Spiel nicht empfehlen.",
        "Nach {n} Stunden habe ich aufgegeben, {thing} ist {bad}.",
        "Finger weg, {thing} ist {bad} und der Support antwortet nicht.",
    ),
    _choices("Gutes Spiel|macht Spaß|sehr geil|Kaufempfehlung!|Bestes Spiel überhaupt|läuft"),
    _choices("schlecht|nicht kaufen|Geld zurück bitte|stürzt ständig ab|langweilig|nein danke"),
)
FRENCH = Language(
    _choices(
        """la musique|le scénario|le système de combat|la carte|le mode multijoueur|la difficulté|
        l'ambiance|le début|la dernière mise à jour|l'histoire"""
    ),
    _choices("magnifique|superbe|agréable|incroyable|formidable|très sympathique|unique"),
    _choices("horrible|médiocre|ridicule|pénible|lamentable|injouable|vraiment pauvre"),
    (
        "J'y ai passé {n} heures et {thing} est toujours {good}.",
        "Un très bon jeu, {thing} est {good}, je le recommande à tout le monde !",
        "Franchement {thing} est {good}, on ne s'ennuie jamais avec ses amis.",
        "Acheté en solde pour {n} euros, et {thing} est {good}.",
    ),
    (
        "Il faut environ {n} heures pour finir le jeu, sans compter les quêtes annexes.",
        "Je mettrai cette évaluation à jour après le prochain correctif.",
    ),
    (
        "Je voulais aimer ce jeu, mais {thing} est {bad}.",
        "Au bout de {n} heures j'ai demandé un remboursement, {thing} est {bad}.",
        "N'achetez pas, {thing} est {bad} et les serveurs sont vides.",
    ),
    _choices("très bon jeu|génial|j'adore|à acheter !|excellent, merci|super jeu entre amis"),
    _choices("nul|à éviter|très déçu|remboursez-moi|trop de bugs|sans intérêt"),
)
SPANISH = Language(
    _choices(
        """la historia|el combate|la banda sonora|el mapa|el modo multijugador|la dificultad|
        el final|la última actualización|el tutorial|la ambientación"""
    ),
    _choices("excelente|increíble|impresionante|genial|muy agradable|brillante|memorable"),
    _choices("horrible|terrible|un desastre|insoportable|lamentable|una vergüenza|inestable"),
    (
        "Llevo {n} horas jugando y {thing} me parece {good}.",
        "Muy recomendable si te gusta el género, {thing} es {good}.",
        "¡Qué juegazo! {thing} es {good} y con amigos es aún mejor.",
        "Lo compré en oferta por {n} euros y {thing} es {good}.",
    ),
    (
        "Se termina en unas {n} horas si no haces las misiones secundarias.",
        "Funciona en mi ordenador viejo después de cambiar {n} opciones.",
    ),
    (
        "Quería que me gustara, pero {thing} es {bad}.",
        "Después de {n} horas pedí el reembolso porque {thing} es {bad}.",
        "No lo compréis, {thing} es {bad} y los servidores no funcionan.",
    ),
    _choices("muy bueno|buen juego|me encanta|¡lo mejor!|un clásico|recomendado, cómprenlo"),
    _choices("muy malo|no lo compren|aburrido|una estafa|no funciona|devuélvanme el dinero"),
)
PORTUGUESE = Language(
    _choices(
        """a história|o combate|a trilha sonora|o mapa|o modo online|a dificuldade|o final|
        a última atualização|a jogabilidade|o começo"""
    ),
    _choices("excelente|incrível|impressionante|muito legal|genial|sensacional|show de bola"),
    _choices("horrível|terrível|um lixo|uma vergonha|decepcionante|um desastre|insuportável"),
    (
        "Já joguei mais de {n} horas e {thing} é {good}.",
        "Vale muito a pena, {thing} é {good} e não dá vontade de parar!",
        "Comprei na promoção por {n} reais e {thing} é {good}.",
        "Melhor jogo que já joguei com meus amigos, {thing} é {good}.",
    ),
    (
        "Dá para terminar em umas {n} horas sem fazer as missões secundárias.",
        "No meu computador antigo roda bem depois de mudar {n} opções.",
    ),
    (
        "Eu queria gostar deste jogo, mas {thing} é {bad}.",
        "Depois de {n} horas pedi reembolso porque {thing} é {bad}.",
        "Não comprem, {thing} é {bad} e os servidores não funcionam.",
    ),
    _choices("muito bom|jogo top|amei|recomendo demais|melhor jogo|vale a pena, compre já"),
    _choices("não comprem|muito ruim|lixo|quero meu dinheiro de volta|cheio de bugs|chato demais"),
)
RUSSIAN = Language(
    _choices(
        """боевая система|музыка|сюжет|открытый мир|мультиплеер|графика|управление|концовка|
        последнее обновление|атмосфера"""
    ),
    _choices("просто супер|настоящий шедевр|выше всяких похвал|на высоте|то, что надо|огонь"),
    _choices("полный провал|сплошное разочарование|хуже некуда|просто ужас|скука смертная"),
    (
        "Наиграл уже {n} часов, {thing} — {good}.",
        "Очень хорошая игра, советую всем купить: {thing} — {good}!",
        "Взял по скидке и не пожалел, потому что {thing} — {good}.",
        "Играем с друзьями каждый вечер, {thing} — {good}.",
    ),
    (
        "Прошёл игру примерно за {n} часов вместе с дополнительными заданиями.",
        "На моём старом компьютере работает нормально после {n} настроек.",
    ),
    (
        "Хотел полюбить эту игру, но {thing} — {bad}.",
        "Через {n} часа вернул деньги, {thing} — {bad}.",
        "Не покупайте, {thing} — {bad}, а сервера всё время лежат.",
    ),
    _choices("отличная игра|годно|10 из 10|мне понравилось|шедевр|игра топ, берите"),
    _choices("не советую|скучно|верните деньги|вылетает|игра мусор|плохо"),
)
CHINESE = Language(
    _choices("画面|音乐|剧情|战斗系统|多人模式|操作|地图|结局|最新的更新|氛围"),
    _choices("非常棒|很不错|让人惊喜|做得很好|特别好玩|值得称赞|太精彩了"),
    _choices("很无聊|太差了|让人失望|全是问题|做得很烂|根本没法玩"),
    (
        "我已经玩了{n}个小时，{thing}{good}。",
        "强烈推荐大家购买，{thing}{good}！",
        "打折的时候买的，没想到{thing}{good}。",
        "和朋友一起玩特别开心，{thing}{good}。",
    ),
    ("大概需要{n}个小时才能通关，支线任务不算在内。", "在我的旧电脑上改了{n}个设置以后可以运行。"),
    (
        "本来很期待这个游戏，可是{thing}{bad}。",
        "玩了{n}个小时就退款了，{thing}{bad}。",
        "千万不要买，{thing}{bad}，服务器也经常连不上。",
    ),
    _choices("好玩|非常好的游戏|推荐|神作|良心游戏，值得买|不错"),
    _choices("不推荐|垃圾游戏|退款了|太无聊了|经常闪退|浪费钱"),
    glue="",
)
#: In no language, or in several at once.
ODD_TEXTS = (
    "10/10",
    ":)",
    "♥♥♥♥♥♥♥♥",
    "░░░░░▄▄▄▄▀▀▀▀▀▀▀▀▄▄▄▄▄▄░░░\n░░▄▀░░░░░░░░░░░░▀▀▄▄░░▀▄░",
    "asdfghjkl",
    "7",
    "Very good game, sehr gut, очень хорошо, 很好!",
    "GG EZ, ggwp",
    "+",
    "https://store.example.org/app/730 vs https://store.example.org/app/570",
    "Sword: 9/10\nShield: 8/10\nBear: 11/10",
)


def phrases(language: Language, tone: str, count: int, chance: Chance) -> list[str]:
    """Sentences of the tone `glad` or `sad`, with some even ones among them."""
    templates = (*(language.glad if tone == "glad" else language.sad) * 2, *language.even)
    return [_filled(language, chance.pick(templates), chance) for _ in range(count)]


def _filled(language: Language, template: str, chance: Chance) -> str:
    text = template
    for slot, words in (("{thing}", language.things), ("{good}", language.good),
                        ("{bad}", language.bad)):  # fmt: skip
        while slot in text:
            text = text.replace(slot, chance.pick(words), 1)
    text = text.replace("{n}", str(2 + chance.skewed(300)))
    return text[:1].upper() + text[1:]
